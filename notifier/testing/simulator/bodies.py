"""Bodies: how the tweet service says what the script has it say."""

import json

from notifier.domain.upstream.validation import DELETED_TYPE, EDITED_TYPE, ERASED_TYPE, EVENT_TYPE, PROTECTED_TYPE
from notifier.testing.simulator.script import TakenBack, Tweeted

TEXT = "hello"
WITHDRAWALS = {"delete": DELETED_TYPE, "edit": EDITED_TYPE, "protect": PROTECTED_TYPE, "erase": ERASED_TYPE}


def body(tweeted: Tweeted, time: str) -> bytes:
    data = {
        "tweet": tweeted.id,
        "author": tweeted.author,
        "mentions": list(tweeted.mentioned),
        "text": TEXT,
        "protected": tweeted.protected,
    }
    event = {"specversion": "1.0", "type": EVENT_TYPE, "source": "tweets", "id": tweeted.id, "time": time, "data": data}
    return json.dumps(event).encode()


def withdrawal(given: TakenBack, time: str) -> bytes:
    data: dict[str, object] = {"tweet": given.tweet, "author": given.author} if given.tweet else {"user": given.author}
    if given.what == "edit":
        data |= {"mentions": list(given.mentioned), "text": given.text, "sequence": given.sequence}
    event = {"specversion": "1.0", "type": WITHDRAWALS[given.what], "source": "tweets", "id": given.id, "time": time}
    return json.dumps(event | {"data": data}).encode()
