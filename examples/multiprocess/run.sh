#!/usr/bin/env bash
# Two processes, one limit, one kill -9. Run it from the root of the repository:
#
#   ./examples/multiprocess/run.sh
#
# It starts a PostgreSQL server to throw away (scripts/postgres), two "weir
# serve" processes on it, and more jobs than their shared limit lets pass. After
# 4 s it kills one process with -9, and starts it again 2 s later. Every handler
# appends the time at which it began to a ledger; at the end the ledger is held
# against the bound, for every interval of several lengths.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

if [ -z "${WEIR_EXAMPLE_INSIDE-}" ]; then
  WEIR_EXAMPLE_INSIDE=1 WEIR_TEST_POSTGRES='' exec scripts/postgres "$here/run.sh"
fi

jobs=400 rate=20 burst=40 # as in weir.yaml
work=$(mktemp -d)
export LEDGER=$work/ledger WEIR_DATABASE="$WEIR_TEST_POSTGRES&schema=weir"
: >"$LEDGER"

declare -A pids=()
# shellcheck disable=SC2317 # called by the trap below
clean() {
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || :; done
  wait 2>/dev/null || :
  rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

weir() { "$work/weir" "$@" -c "$here/weir.yaml"; }

serve() { # NAME: starts a process of that name and waits until it serves
  SERVER=$1 "$work/weir" serve -c "$here/weir.yaml" >"$work/$1.out" 2>"$work/$1.log" &
  pids[$1]=$!
  until grep -q msg=serving "$work/$1.log"; do
    kill -0 "${pids[$1]}" 2>/dev/null || { cat "$work/$1.log" >&2 && exit 1; }
    sleep 0.05
  done
}

began=$SECONDS
say() { printf '%3d s  %s\n' $((SECONDS - began)) "$*"; }

echo "building weir ..."
CGO_ENABLED=0 go build -buildvcs=false -o "$work/weir" ./cmd/weir
began=$SECONDS
serve A
serve B
say "A and B serve one database"
weir enqueue charge_card --count $((jobs / 2)) >/dev/null
weir enqueue refund_card --count $((jobs / 2)) >/dev/null
say "$jobs jobs are enqueued; the limit is $rate/s, $burst at once"
sleep 4
kill -9 "${pids[A]}"
wait "${pids[A]}" 2>/dev/null || :
say "A is killed with -9"
sleep 2
serve A
say "A is back"

# Done is when no job is left: neither in line nor with a process.
left() { weir jobs list --limit 1 --state pending,running --json | grep -c '"id"' || :; }
for ((i = 0; i < 240; i++)); do
  if [ "$(left)" = 0 ]; then break; fi
  sleep 0.5
done
if [ "$(left)" = 0 ]; then say "no job is left"; else say "jobs are left: this machine is too slow"; fi
for name in A B; do kill -TERM "${pids[$name]}"; done
for name in A B; do wait "${pids[$name]}" || { cat "$work/$name.log" >&2 && exit 1; }; done
pids=()

# What the database says: when each job's last attempt was granted.
weir jobs list --state completed --limit 10000 --json |
  awk -F '"' '$2 == "id" { id = $4 } $2 == "attempt" { sub(/.*: /, ""); sub(/,.*/, ""); attempt = $0 } $2 == "started_at" { print $4, id, attempt }' >"$work/grants"

# What the handlers say, in the order of time.
sort -n "$LEDGER" >"$work/sorted"

awk -v jobs=$jobs -v rate=$rate -v burst=$burst '
  # Seconds since 1970 of "2026-03-01T09:00:00.123456Z".
  function seconds(text, y, m, d, days) {
    y = substr(text, 1, 4) + 0; m = substr(text, 6, 2) + 0; d = substr(text, 9, 2) + 0
    if (m <= 2) { y--; m += 12 }
    days = 365 * y + int(y / 4) - int(y / 100) + int(y / 400) + int((153 * (m - 3) + 2) / 5) + d - 719469
    return 86400 * days + 3600 * substr(text, 12, 2) + 60 * substr(text, 15, 2) + substr(text, 18, 9)
  }
  FNR == NR { granted[$2, $3] = seconds($1); done++; next }
  {
    at[++n] = $1; by[$2]++
    if (($3, $4) in granted && $1 - granted[$3, $4] > late) late = $1 - granted[$3, $4]
  }
  END {
    printf "\n%d jobs, %d completed; %d starts, %d by A and %d by B, %d of them again, after a lost lease\n", jobs, done, n, by["A"], by["B"], n - jobs
    printf "a handler began up to %.3f s after its grant; the bound allows for it\n\n", late
    printf "%-12s %12s %12s\n", "in any", "starts, most", "bound"
    if (done != jobs) print "NOT ALL JOBS ARE COMPLETED"
    bad = done != jobs
    lengths = split("0 0.1 0.5 1 2 5 10 15", length_of, " ")
    for (k = 1; k <= lengths; k++) {
      most = 0
      for (i = j = 1; j <= n; j++) {
        while (at[j] - at[i] > length_of[k]) i++
        if (j - i + 1 > most) most = j - i + 1
      }
      bound = burst + (length_of[k] + late) * rate
      over = most > bound
      bad = bad || over
      printf "%-12s %12d %12.1f%s\n", length_of[k] " s", most, bound, over ? "  EXCEEDED" : ""
    }
    # Not only at these lengths: every pair of starts.
    for (i = 1; i <= n; i++) for (j = i; j <= n; j++) if (j - i + 1 > burst + (at[j] - at[i] + late) * rate) broken++
    printf "\n%d of %d intervals between two starts break the bound\n", broken, n * (n + 1) / 2
    exit bad || broken > 0
  }' "$work/grants" "$work/sorted"
