# Waits for the end of the process that holds the other end of its standard input, unless that says that it has no command
# any more. Then it kills what that process could not: every process that carries its mark (see tag.rs), the argument.
trap '' HUP INT QUIT TERM PIPE
read -r && exit 0

# Kills the marked processes that exist now; true if there were any. Each is stopped when it is found and killed when all
# are: a shell whose child is killed first would go on with the next command.
kill_marked() {
  local process lines line stat found=()
  for process in /proc/[0-9]*; do
    mapfile -t lines <"$process/limits" || continue
    for line in "${lines[@]}"; do
      [[ $line == "Max msgqueue size"* ]] && break
    done
    set -- "$1" ${line#Max msgqueue size}
    [[ $2 == "$1" && $3 != "$1" ]] || continue
    read -r stat <"$process/stat" || continue
    [[ ${stat##*) } == [ZXx]* ]] && continue
    kill -STOP "${process#/proc/}" && found+=("${process#/proc/}")
  done
  ((${#found[@]})) && kill -KILL "${found[@]}"
} 2>/dev/null

# A process forked during one round is found by the next. The limit is for processes that the kernel cannot kill yet.
for ((rounds = 0; rounds < 1000; rounds++)); do
  kill_marked "$1" || break
done
