# Reads turns, one a line: the tasks, the cycles of a second by the client and by what is beside it, and the processor time of a cycle by
# both. Prints a line for each number of tasks with the medians, and the medians of the ratios. `language` and `beside` name the line.
# With `rows`, it also appends the turns to that file, as rows of a comparison.
rows {
    printf "{\"row\":\"client-library\",\"language\":\"%s\",\"other\":\"%s\",\"tasks\":%d,", language, beside, $1 >>rows
    printf "\"per_second\":%d,\"other_per_second\":%d}\n", $2, $3 >>rows
}
!seen[$1]++ { tasks[++count] = $1 }
{ add($1, 1, $2); add($1, 2, $3); add($1, 3, $2 / $3); add($1, 4, $4); add($1, 5, $5); add($1, 6, $4 / $5) }
function add(of, column, value) { values[of, column] = values[of, column] " " value }
function median(text, v, n, i, j, swap) {
    n = split(text, v, " ")
    for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) { swap = v[j]; v[j] = v[j - 1]; v[j - 1] = swap }
    return (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2
}
END {
    for (at = 1; at <= count; at++) {
        printf "%-11s %-15s %5d", language, beside, tasks[at]
        for (i = 1; i <= 6; i++) printf (i % 3 ? " %10d" : " %6.2f"), median(values[tasks[at], i])
        print ""
    }
}
