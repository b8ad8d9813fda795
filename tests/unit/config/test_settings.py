"""The settings, as the environment gives them."""

from datetime import timedelta
from pathlib import Path

import pytest

from notifier.config import KafkaSettings, Settings, refusal_of, setting_entries, without_password
from notifier.domain.errors import BadSetting


def test_without_an_environment_every_setting_has_its_default() -> None:
    assert Settings.read({}) == Settings()


def test_names_of_others_are_ignored() -> None:
    assert Settings.read({"PATH": "/bin", "PORT": "1", "_NOTIFIER_COMPLETE": "bash_source"}) == Settings()


@pytest.mark.parametrize(
    ("name", "near"),
    [("NOTIFIER_THRESHHOLD", "NOTIFIER_THRESHOLD"), ("NOTIFIER_KAFKA_SERVER", "NOTIFIER_KAFKA_SERVERS")],
)
def test_a_setting_that_nobody_knows_is_refused_with_the_nearest_one(name: str, near: str) -> None:
    with pytest.raises(BadSetting) as caught:
        Settings.read({name: "1"})
    assert caught.value.detail == f"There is no setting {name}; did you mean {near}?"


def test_one_that_is_like_none_is_refused_with_the_page_of_all() -> None:
    with pytest.raises(BadSetting, match=r"There is no setting NOTIFIER_QQQ; docs/settings\.md has them all\."):
        Settings.read({"NOTIFIER_QQQ": "1"})


def test_a_setting_is_read_by_its_type() -> None:
    found = Settings.read(
        {
            "NOTIFIER_DATA": "/var/lib/n",
            "NOTIFIER_PORT": "0",
            "NOTIFIER_THRESHOLD": "5000",
            "NOTIFIER_REDIS_URL": "redis://cache/1",
        }
    )
    assert found == Settings(data=Path("/var/lib/n"), port=0, threshold=5_000, redis_url="redis://cache/1")


@pytest.mark.parametrize(
    "text",
    ["", "https://app.example", "http://localhost:3000", "http://[::1]:8080,https://a.b-c.example:80,http://127.0.0.1"],
)
def test_origins_are_taken_as_browsers_write_them(text: str) -> None:
    assert Settings.read({"NOTIFIER_ORIGINS": text}).origins == text


@pytest.mark.parametrize(
    "url", ["https://id.example/jwks", "https://id.example:8443/a?b=c", "http://localhost:1/", "http://[::1]:8080/jwks"]
)
def test_an_issuer_s_keys_are_fetched_over_tls_or_from_this_machine(url: str) -> None:
    assert Settings.read({"NOTIFIER_ISSUER_NAME": "x", "NOTIFIER_ISSUER_JWKS": url}).issuer.jwks == url


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({"ISSUER_NAME": "x"}, "NOTIFIER_ISSUER_JWKS"),
        ({"ISSUER_KEY": "file"}, "NOTIFIER_ISSUER_NAME"),
        ({"ISSUER_JWKS": "https://a"}, "NOTIFIER_ISSUER_NAME"),
        ({"ISSUER_NAME": "x", "ISSUER_KEY": "file", "ISSUER_JWKS": "https://a"}, "exclude each other"),
        ({"ISSUER_NAME": "x", "ISSUER_KEY": "file", "DEMO": "a,b,c,d"}, "NOTIFIER_ISSUER_NAME"),
    ],
    ids=str,
)
def test_half_an_issuer_is_refused_and_so_is_one_of_a_demo(said: dict[str, str], names: str) -> None:
    with pytest.raises(BadSetting, match=names):
        Settings.read({f"NOTIFIER_{name}": value for name, value in said.items()})


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("60", 60), ("0.25", 0.25)])
def test_durations_are_in_seconds(text: str, seconds: float) -> None:
    assert Settings.read({"NOTIFIER_COLLAPSE": text}).collapse == timedelta(seconds=seconds)


NONSENSE = {
    "DATA": ["", " "],
    "PROFILE": ["", "em bedded"],
    "HOST": ["", " ", "a b"],
    "PORT": ["http", "", "8080.5", "-1", "65536", "nan"],
    "REDIS_URL": ["cache:6379", "http://cache", "redis://", "redis+sentinel://a:1", "redis+cluster://", "redis+x://a"],
    "THRESHOLD": ["many", "", "0", "-5", "1.5", "nan", "inf"],
    "COLLAPSE": ["soon", "null", "", "-1", "-0.001", "nan", "inf", "-inf", "1e300", "86401"],
    "MONITOR_EVERY": ["", "0", "-1", "nan", "inf", "3601"],
    "ORIGINS": [
        *("*", "https://*.example", "null", "app.example", "//app.example", "ftp://app.example", "https://"),
        *("https://app.example/", "https://app.example/x", "https://App.example", "HTTPS://app.example", " "),
        *("https://app.example:443", "http://app.example:80", "http://a:0", "http://a:65536", "http://a:x"),
        *("https://me@app.example", "https://a,", ",https://a", "https://a, https://b", "https://a;https://b"),
        *("https://a?", "https://a#", "https://ü.example", "https://a\r\nx: y", "https://a\n"),
    ],
    "LOG_LEVEL": ["", "loud"],
    "LIMITS_READS": ["", "-1", "many", "1.5", "1000000001"],
    "ISSUER_NAME": [" ", "two words", "a\n", "x" * 257],
    "ISSUER_AUDIENCE": ["", "two words"],
    "ISSUER_JWKS": [
        *("id.example", "http://id.example/jwks", "ftp://id.example", "file:///etc/keys", "https://", "https:///jwks"),
        *("https://me:hunter@id.example", "https://id.example:x", "https://id.example:0", "https://id.example/a b"),
        *("http://localhost.evil.example", "http://127.0.0.1@evil.example", "http://[::2]/", "https://id.example\n"),
    ],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in NONSENSE.items() for text in texts])
def test_nonsense_is_refused_in_one_sentence_with_the_variable_and_the_value(name: str, text: str) -> None:
    with pytest.raises(BadSetting) as caught:
        Settings.read({f"NOTIFIER_{name}": text})
    assert caught.value.detail.startswith(f"NOTIFIER_{name} is {text!r}; it must be ")
    assert caught.value.detail.count(". ") == 0


def test_a_refusal_shows_neither_a_secret_nor_a_password() -> None:
    for name, text in (
        ("SECRET", "hunter2"),
        ("REDIS_URL", "http://me:hunter2@cache"),
        ("REDIS_URL", "me:hunter2@x"),
        ("BROKERS_P0", "http://me:hunter2@cache"),
    ):
        with pytest.raises(BadSetting, match=f"NOTIFIER_{name} is ") as caught:
            Settings.read({f"NOTIFIER_{name}": text})
        assert "hunter2" not in str(caught.value)


def test_every_default_keeps_its_rule() -> None:
    assert [one.key for one in setting_entries(Settings) if refusal_of(one, one.default)] == []


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "settings.toml"
    written.write_text('port = 9000\ncollapse = 90\n\n[kafka]\nservers = "a:9092,b:9092"\nprefix = "n."\n')
    return written


def test_a_file_says_what_the_environment_doesn_t(file: Path) -> None:
    found = Settings.read({"NOTIFIER_SETTINGS": str(file), "NOTIFIER_KAFKA_PREFIX": "mine."})
    assert found == Settings(
        port=9_000, collapse=timedelta(seconds=90), kafka=KafkaSettings(servers="a:9092,b:9092", prefix="mine.")
    )


def test_what_is_given_wins_over_both(file: Path) -> None:
    assert Settings.read({"NOTIFIER_SETTINGS": str(file), "NOTIFIER_PORT": "1"}, port=2).port == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("prot = 1", "There is no setting prot; did you mean port?"),
        ("[kafka]\nserver = 'a:1'", "There is no setting kafka.server; did you mean kafka.servers?"),
        ("port = 70000", "port in "),
        ("port = 'x'", "is 'x'; it must be a whole number from 0 to 65535."),
        ("[kafka]\npassword = 7", "it must be a password."),
        ("port = ", "can't be read: "),
    ],
)
def test_a_file_with_nonsense_is_refused_with_its_name(tmp_path: Path, content: str, said: str) -> None:
    written = tmp_path / "mine.toml"
    written.write_text(content)
    with pytest.raises(BadSetting) as caught:
        Settings.read({"NOTIFIER_SETTINGS": str(written)})
    assert str(written) in caught.value.detail
    assert said in caught.value.detail


def test_a_file_that_isn_t_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"none\.toml can't be read"):
        Settings.read({"NOTIFIER_SETTINGS": str(tmp_path / "none.toml")})


def test_the_cluster_profile_alone_finds_the_services_of_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "settings.toml").write_text("redis_url = 'redis://here:1'")
    assert Settings.read({}, data=tmp_path).redis_url == ""
    assert Settings.read({}, data=tmp_path, profile="cluster").redis_url == "redis://here:1"
    assert Settings.read({"NOTIFIER_PROFILE": "cluster"}, data=tmp_path).redis_url == "redis://here:1"


def test_what_isn_t_said_is_the_profile_of_the_service_that_runs_there(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "profile").write_text("cluster")
    assert Settings.read({}, data=tmp_path).profile == "cluster"
    assert Settings.read({"NOTIFIER_PROFILE": "embedded"}, data=tmp_path).profile == "embedded"
    (tmp_path / "run" / "profile").write_text("of somebody else")
    assert Settings.read({}, data=tmp_path).profile == "embedded"


@pytest.mark.parametrize("url", ["amqp://u:p/q@h/v", "redis://me:p@ss@cache:1/0", "me:hunter2@x", "rediss://:pw@h"])
def test_a_password_with_whatever_in_it_is_hidden_whole(url: str) -> None:
    shown = without_password(url)
    assert not any(piece in shown for piece in ("p/q", "u:p", "p@ss", "me:", "hunter2", "pw"))
