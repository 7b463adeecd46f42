# The runner: starts one Run's script in the guest at most once, and leaves a record of how it ended.
#
# Arguments: UID NONCE TIMEOUT_SECONDS SPOOL_KIB VARIABLES SCRIPT_BYTES FLAGS
# Stdin:     VARIABLES times K=V NUL, working directory NUL, the script (exactly SCRIPT_BYTES), then the script's stdin.
# Exit:      90 wrong instance, 91 the guard exists, 92 the disk refuses, 93 input cut short or stopped first; after the
#            start marker, the script's own code. No tool but bash may touch our stdin before the script does: others read ahead.
# Flags:     k = kill what the script leaves behind.
uid=$1 nonce=$2 timeout=$3 spool_kib=$4 variables=$5 script_bytes=$6 flags=$7
root=$HOME/.sprite-operator
guard=$root/$uid
umask 077
# From here to the start of the script a signal only leaves word: the guard must never stand without a record.
stop=
trap 'stop=1' TERM HUP INT

# Only the instance that was locked down holds the nonce.
{ read -r found <"$root/nonce"; } 2>/dev/null
[[ $found == "$nonce" ]] || exit 90

# Read everything first: a launch that was cut short must start nothing.
environment=()
for ((i = 0; i < variables; i++)); do
  IFS= read -rd '' variable || exit 93
  environment+=("$variable")
done
IFS= read -rd '' directory || exit 93
script=
if ((script_bytes > 0)); then LC_ALL=C IFS= read -rN "$script_bytes" script || exit 93; fi

# The guard: mkdir is atomic, so of two launches one starts. An adopter that found nothing has put a link here instead.
mkdir "$guard" 2>/dev/null || {
  [[ -e $guard || -L $guard ]] && exit 91
  exit 92
}
never_started() {
  printf 'never\n' >"$guard/exit"
  exit "$1"
}
mkfifo "$guard/out" "$guard/err" "$guard/wait" 2>/dev/null && mkdir -p -- "$directory" 2>/dev/null && cd -- "$directory" 2>/dev/null || never_started 92
[[ $stop ]] && never_started 93
started=$EPOCHREALTIME
printf 'so-started %s\n' "$uid"
exec 3>&1 4>&2 2>/dev/null

# Each stream goes to the caller and, capped, to a spool under the guard; tee goes on when the spool is full (-p).
spool() {
  trap '' XFSZ
  ulimit -f "$spool_kib"
  exec tee -p "$guard/$1" <"$guard/$2" 2>/dev/null
}
spool stdout out >&3 3>&- 4>&- &
out_spool=$!
spool stderr err >&4 3>&- 4>&- &
err_spool=$!

# As an argument, so that messages of bash name no file of ours; a script has at most 64 KiB, an argument may have 128.
# In a session of its own, so that one signal reaches its group; default signals, since a background job ignores INT and QUIT.
setsid env -i --default-signal=INT,QUIT PATH="$PATH" HOME="$HOME" USER="$USER" LANG=C.UTF-8 SO_RUN="$uid" "${environment[@]}" bash --noprofile --norc -c "$script" bash <&0 >"$guard/out" 2>"$guard/err" 3>&- 4>&- &
child=$!

# Kills everything that carries the mark, until two scans 20 ms apart find nothing: one scan misses what forks meanwhile.
sweep() {
  local found scans
  exec 9<>"$guard/wait"
  kill -KILL -- "-$child"
  for ((scans = 0; scans < 2; )); do
    found=$(grep -lzxF "SO_RUN=$uid" /proc/[0-9]*/environ)
    if [[ -z $found ]]; then
      ((++scans))
      read -rt 0.02 -u 9
      continue
    fi
    found=${found//\/proc\//}
    kill -KILL ${found//\/environ/}
    scans=0
  done
} 2>/dev/null
task() {
  curl -sm 2 -o /dev/null --unix-socket /.sprite/api.sock "$@" "http://sprite/v1/tasks/so-$uid"
}

# The backstop: keeps the Sprite awake for a long script, and ends it at the timeout even if the caller is gone.
setsid bash -c "$(declare -f sweep task)"'
  uid=$1 child=$2 timeout=$3 guard=$4 first=$((timeout < 10 ? timeout : 10))
  sleep "$first"
  if ((timeout > first)); then
    task -X PUT -d "{\"expire\":$((timeout + 60))}" && : >"$guard/task"
    sleep $((timeout - first))
  fi
  : >"$guard/timeout"
  sweep' so-backstop "$uid" "$child" "$timeout" "$guard" <&- >&- 2>&- 3>&- 4>&- &
backstop=$!

killed() {
  : >"$guard/killed"
  sweep
  interrupted=1
}
trap killed TERM HUP INT
[[ $stop ]] && killed
# A trap ends wait early with the trap's own code: only an undisturbed wait tells how the script ended.
code=
while :; do
  interrupted=
  wait "$child"
  last=$?
  [[ $last == 127 && $code ]] || code=$last
  [[ $interrupted ]] || break
done
# Complete only with its newline; written before anything else can go wrong.
printf '%s %s %s\n' "$code" "$started" "$EPOCHREALTIME" >"$guard/exit"
# Both the process and its group: it may not have become a leader yet.
kill -KILL "$backstop" "-$backstop"
[[ $flags == *k* ]] && sweep
# Background children may hold the pipes open: they lose them after a second.
(
  sleep 1
  kill -KILL "$out_spool" "$err_spool"
) &
patience=$!
wait "$out_spool" "$err_spool"
kill -KILL "$patience"
[[ -e $guard/task ]] && task -X DELETE
rm -f "$guard/out" "$guard/err" "$guard/wait"
exit "$code"
