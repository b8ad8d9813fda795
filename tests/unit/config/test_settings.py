"""Settings from the environment and from files."""

from datetime import timedelta
from pathlib import Path

import pytest

from notifier.config import KafkaSettings, Settings, setting_entries, value_problem, without_password
from notifier.domain.errors import BadSetting


def test_empty_environment_gives_the_defaults() -> None:
    assert Settings.read({}) == Settings()


def test_unrelated_variables_are_ignored() -> None:
    assert Settings.read({"PATH": "/bin", "PORT": "1", "_NOTIFIER_COMPLETE": "bash_source"}) == Settings()


@pytest.mark.parametrize(
    ("name", "near"),
    [("NOTIFIER_THRESHHOLD", "NOTIFIER_THRESHOLD"), ("NOTIFIER_KAFKA_SERVER", "NOTIFIER_KAFKA_SERVERS")],
)
def test_unknown_setting_is_refused_with_the_nearest_name(name: str, near: str) -> None:
    with pytest.raises(BadSetting) as caught:
        Settings.read({name: "1"})
    assert caught.value.detail == f"Unknown setting {name}; did you mean {near}?"


def test_unknown_setting_without_a_near_name_refers_to_the_docs() -> None:
    with pytest.raises(BadSetting, match=r"Unknown setting NOTIFIER_QQQ; see docs/settings\.md\."):
        Settings.read({"NOTIFIER_QQQ": "1"})


def test_setting_is_read_by_its_type() -> None:
    settings = Settings.read(
        {
            "NOTIFIER_DATA": "/var/lib/n",
            "NOTIFIER_PORT": "0",
            "NOTIFIER_THRESHOLD": "5000",
            "NOTIFIER_REDIS_URL": "redis://cache/1",
        }
    )
    assert settings == Settings(data=Path("/var/lib/n"), port=0, threshold=5_000, redis_url="redis://cache/1")


@pytest.mark.parametrize(
    "text",
    ["", "https://app.example", "http://localhost:3000", "http://[::1]:8080,https://a.b-c.example:80,http://127.0.0.1"],
)
def test_valid_origins_are_accepted(text: str) -> None:
    assert Settings.read({"NOTIFIER_ORIGINS": text}).origins == text


@pytest.mark.parametrize(
    "url", ["https://id.example/jwks", "https://id.example:8443/a?b=c", "http://localhost:1/", "http://[::1]:8080/jwks"]
)
def test_issuer_keys_url_uses_tls_or_loopback(url: str) -> None:
    assert Settings.read({"NOTIFIER_ISSUER_NAME": "x", "NOTIFIER_ISSUER_JWKS": url}).issuer.jwks == url


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ISSUER_NAME": "x"}, "NOTIFIER_ISSUER_JWKS"),
        ({"ISSUER_KEY": "file"}, "NOTIFIER_ISSUER_NAME"),
        ({"ISSUER_JWKS": "https://a"}, "NOTIFIER_ISSUER_NAME"),
        ({"ISSUER_NAME": "x", "ISSUER_KEY": "file", "ISSUER_JWKS": "https://a"}, "Set only one of"),
        ({"ISSUER_NAME": "x", "ISSUER_KEY": "file", "DEMO": "a,b,c,d"}, "NOTIFIER_ISSUER_NAME"),
    ],
    ids=str,
)
def test_incomplete_issuer_or_issuer_in_a_demo_is_refused(values: dict[str, str], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        Settings.read({f"NOTIFIER_{name}": value for name, value in values.items()})


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("60", 60), ("0.25", 0.25)])
def test_durations_are_in_seconds(text: str, seconds: float) -> None:
    assert Settings.read({"NOTIFIER_COLLAPSE": text}).collapse == timedelta(seconds=seconds)


INVALID = {
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


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in INVALID.items() for text in texts])
def test_invalid_value_is_refused_with_its_variable_and_value(name: str, text: str) -> None:
    with pytest.raises(BadSetting) as caught:
        Settings.read({f"NOTIFIER_{name}": text})
    assert caught.value.detail.startswith(f"NOTIFIER_{name} is {text!r}; it must be ")
    assert caught.value.detail.count(". ") == 0


def test_refusal_shows_no_secret_and_no_password() -> None:
    for name, text in (
        ("SECRET", "hunter2"),
        ("REDIS_URL", "http://me:hunter2@cache"),
        ("REDIS_URL", "me:hunter2@x"),
        ("BROKERS_P0", "http://me:hunter2@cache"),
    ):
        with pytest.raises(BadSetting, match=f"NOTIFIER_{name} is ") as caught:
            Settings.read({f"NOTIFIER_{name}": text})
        assert "hunter2" not in str(caught.value)


def test_every_default_is_valid() -> None:
    assert [setting.key for setting in setting_entries(Settings) if value_problem(setting, setting.default)] == []


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "settings.toml"
    written.write_text('port = 9000\ncollapse = 90\n\n[kafka]\nservers = "a:9092,b:9092"\nprefix = "n."\n')
    return written


def test_file_sets_what_the_environment_does_not(file: Path) -> None:
    settings = Settings.read({"NOTIFIER_SETTINGS": str(file), "NOTIFIER_KAFKA_PREFIX": "mine."})
    assert settings == Settings(
        port=9_000, collapse=timedelta(seconds=90), kafka=KafkaSettings(servers="a:9092,b:9092", prefix="mine.")
    )


def test_explicit_argument_wins_over_environment_and_file(file: Path) -> None:
    assert Settings.read({"NOTIFIER_SETTINGS": str(file), "NOTIFIER_PORT": "1"}, port=2).port == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("prot = 1", "Unknown setting prot; did you mean port?"),
        ("[kafka]\nserver = 'a:1'", "Unknown setting kafka.server; did you mean kafka.servers?"),
        ("port = 70000", "port in "),
        ("port = 'x'", "is 'x'; it must be a whole number from 0 to 65535."),
        ("[kafka]\npassword = 7", "it must be a password."),
        ("port = ", "Can't read the settings file"),
    ],
)
def test_invalid_file_is_refused_with_its_name(tmp_path: Path, content: str, message: str) -> None:
    written = tmp_path / "mine.toml"
    written.write_text(content)
    with pytest.raises(BadSetting) as caught:
        Settings.read({"NOTIFIER_SETTINGS": str(written)})
    assert str(written) in caught.value.detail
    assert message in caught.value.detail


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"Can't read the settings file .*none\.toml"):
        Settings.read({"NOTIFIER_SETTINGS": str(tmp_path / "none.toml")})


def test_only_the_cluster_profile_reads_services_of_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "settings.toml").write_text("redis_url = 'redis://here:1'")
    assert Settings.read({}, data=tmp_path).redis_url == ""
    assert Settings.read({}, data=tmp_path, profile="cluster").redis_url == "redis://here:1"
    assert Settings.read({"NOTIFIER_PROFILE": "cluster"}, data=tmp_path).redis_url == "redis://here:1"


def test_profile_defaults_to_that_of_the_running_service(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "profile").write_text("cluster")
    assert Settings.read({}, data=tmp_path).profile == "cluster"
    assert Settings.read({"NOTIFIER_PROFILE": "embedded"}, data=tmp_path).profile == "embedded"
    (tmp_path / "run" / "profile").write_text("of somebody else")
    assert Settings.read({}, data=tmp_path).profile == "embedded"


@pytest.mark.parametrize("url", ["amqp://u:p/q@h/v", "redis://me:p@ss@cache:1/0", "me:hunter2@x", "rediss://:pw@h"])
def test_password_with_special_characters_is_hidden_completely(url: str) -> None:
    shown = without_password(url)
    assert not any(fragment in shown for fragment in ("p/q", "u:p", "p@ss", "me:", "hunter2", "pw"))
