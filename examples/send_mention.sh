#!/bin/sh
# One mention without Python on your side: examples/send_mention.sh AUTHOR ACCOUNT
# Needs curl, and `notifier up` in this folder. A retry of curl sends the same id again: nothing happens twice.
set -eu
author=${1:?"the author; usage: $0 AUTHOR ACCOUNT"} account=${2:?"the account; usage: $0 AUTHOR ACCOUNT"}
id=$(date +%s)-$$

of() { sed -n "s/.*\"$1\": \"\\([^\"]*\\)\".*/\\1/p" "${READY:-notifier-data/run/ready.json}"; }

curl --silent --show-error --fail-with-body --retry 5 --retry-connrefused --max-time 60 "$(of url)/v1/events" \
  --header "Authorization: Bearer $(of service_key)" --header "Content-Type: application/cloudevents+json" --data @- <<EVENT
{
  "specversion": "1.0", "type": "notifier.tweet.mentioned.v1", "source": "//send_mention.sh", "id": "$id",
  "time": "$(date -u +%Y-%m-%dT%H:%M:%SZ)",
  "data": {"tweet": "t-$id", "author": "$author", "mentions": ["$account"], "text": "hello @$account"}
}
EVENT
echo
