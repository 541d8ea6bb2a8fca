# Waits for the end of the process that holds the other end of its standard input. Then it kills what that process
# could not: every process that carries one of the tags (see tag.rs) that are registered at that moment.
trap '' HUP INT QUIT TERM PIPE
registered=
while read -r sign tag; do
  case $sign in
    +) registered+=" $tag " ;;
    -) registered=${registered/" $tag "/} ;;
  esac
done
[[ $registered == *:* ]] || exit 0

# Kills the tagged processes that exist now; true if there were any. Each is stopped when it is found and killed when all
# are: a shell whose child is killed first would go on with the next command.
kill_tagged() {
  local process lines line stat found=()
  for process in /proc/[0-9]*; do
    mapfile -t lines <"$process/limits" || continue
    for line in "${lines[@]}"; do
      [[ $line == "Max msgqueue size"* ]] && break
    done
    set -- ${line#Max msgqueue size}
    [[ $registered == *" $1:$2 "* ]] || continue
    read -r stat <"$process/stat" || continue
    [[ ${stat##*) } == [ZXx]* ]] && continue
    kill -STOP "${process#/proc/}" && found+=("${process#/proc/}")
  done
  ((${#found[@]})) && kill -KILL "${found[@]}"
} 2>/dev/null

# A process forked during one round is found by the next. The limit is for processes that the kernel cannot kill yet.
for ((rounds = 0; rounds < 1000; rounds++)); do
  kill_tagged || break
done
