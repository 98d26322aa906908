#!/bin/sh
# Enqueues more than the limits let pass, and shows what becomes of it. The
# scheduler must be running: see weir.yaml.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
echo "building weir ..."
go build -o "$bin/weir" ./cmd/weir
weir() { "$bin/weir" "$@" -c "$here/weir.yaml"; }
title() { printf '\n--- %s\n' "$1"; }

title "300 emails, 60 calls (3 of them fail, and come first), 1000 samples"
weir enqueue send_email --count 300 --args '{"to": "ada@example.com"}' >"$bin/ids"
weir enqueue api_call --count 57 --args '{"item": 1}' >>"$bin/ids"
weir enqueue api_call --count 3 --args '{"fail": true}' --priority 10 >>"$bin/ids"
weir enqueue record_sample --count 1000 --args '{"value": 42}' >>"$bin/ids"
echo "$(wc -l <"$bin/ids") jobs enqueued"

sleep 1
title "a second later: what exceeds the limits waits, or was shed"
weir limits list

sleep 8
title "eight seconds later: the emails have earned 13 more starts, the calls 80"
weir limits list

title "dead letters: the samples for which there was no token, and the calls that failed twice"
weir dlq stats
echo
weir dlq list --kind shed --limit 2
echo
weir dlq list --kind failed --limit 3

cat <<TEXT

try:  go run ./cmd/weir dlq show 1 -c examples/quickstart/weir.yaml
      go run ./cmd/weir dlq replay --kind failed -c examples/quickstart/weir.yaml    (it asks first; --yes does not)
      go run ./cmd/weir jobs list --task send_email --state waiting -c examples/quickstart/weir.yaml
TEXT
