# Reads turns, one a line: the tasks, the cycles of a second by the client and by what is beside it, and the processor time of a cycle by
# both. Prints a line for 1 and for 64 tasks with the medians, and the medians of the ratios. `language` and `beside` name the line.
{ add($1, 1, $2); add($1, 2, $3); add($1, 3, $2 / $3); add($1, 4, $4); add($1, 5, $5); add($1, 6, $4 / $5) }
function add(tasks, column, value) { values[tasks, column] = values[tasks, column] " " value }
function median(text, v, n, i, j, swap) {
    n = split(text, v, " ")
    for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) { swap = v[j]; v[j] = v[j - 1]; v[j - 1] = swap }
    return v[int((n + 1) / 2)]
}
END {
    for (tasks = 1; tasks <= 64; tasks += 63) {
        printf "%-11s %-15s %5d", language, beside, tasks
        for (i = 1; i <= 6; i++) printf (i % 3 ? " %10d" : " %6.2f"), median(values[tasks, i])
        print ""
    }
}
