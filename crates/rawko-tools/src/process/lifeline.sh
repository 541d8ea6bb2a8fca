# Waits for the end of the process that holds the other end of its standard input, and then kills whatever that one
# could not end any more: all processes that carry one of the marks (see mark.rs) that are held at that moment.
trap '' HUP INT QUIT TERM PIPE
held=
while read -r sign mark; do
  case $sign in
    +) held+=" $mark " ;;
    -) held=${held/" $mark "/} ;;
  esac
done
[[ $held == *:* ]] || exit 0

# One look at all processes. True as long as there was one to kill. Each is stopped when it is found and killed when all
# are: a shell whose child is killed first would go on with the next command.
look() {
  local process lines line stat found=()
  for process in /proc/[0-9]*; do
    mapfile -t lines <"$process/limits" || continue
    for line in "${lines[@]}"; do
      [[ $line == "Max msgqueue size"* ]] && break
    done
    set -- ${line#Max msgqueue size}
    [[ $held == *" $1:$2 "* ]] || continue
    read -r stat <"$process/stat" || continue
    [[ ${stat##*) } == [ZXx]* ]] && continue
    kill -STOP "${process#/proc/}" && found+=("${process#/proc/}")
  done
  ((${#found[@]})) && kill -KILL "${found[@]}"
} 2>/dev/null

# What was being forked during one look is found by the next. A process that the kernel does not let go is left to it.
for ((looks = 0; looks < 1000; looks++)); do
  look || break
done
