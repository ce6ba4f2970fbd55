// Package speed counts cycles of one acquire and one release, by the client and by another kind of locks beside it.
package speed

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	holdfast "github.com/holdfast/holdfast/crates/client-go"
)

const (
	// TasksMax is the largest number of tasks.
	TasksMax        = 256
	warmingUpCycles = 4000
)

// Addresses returns the nodes in HOLDFAST_ADDR.
func Addresses() []string {
	return strings.Split(os.Getenv("HOLDFAST_ADDR"), ",")
}

// Measure prints a line for 1, 64 and 256 tasks in each turn: the tasks, the cycles of a second by the client and by the other
// kind, and the processor time of a cycle in microseconds by both. Each task has one lock. The arguments of the program are
// TURNS SECONDS; other returns the cycle of a task.
func Measure(other func(task int) func()) {
	turns, seconds := number(os.Args[1]), number(os.Args[2])
	hf, err := holdfast.New(holdfast.Config{Addresses: Addresses()})
	Check(err)
	defer hf.Close()

	var clients, others []func()
	for task := 0; task < TasksMax; task++ {
		clients = append(clients, locked(hf, task))
		others = append(others, other(task))
	}
	for _, cycles := range [][]func(){clients, others} {
		run(cycles, func(count int64) bool { return count >= warmingUpCycles })
	}
	for turn := 0; turn < turns; turn++ {
		for _, tasks := range []int{1, 64, TasksMax} {
			during := func(cycles []func()) (float64, float64) {
				until := time.Now().Add(time.Duration(seconds) * time.Second)
				return run(cycles[:tasks], func(int64) bool { return time.Now().After(until) })
			}
			clientRate, clientUsed := during(clients)
			otherRate, otherUsed := during(others)
			fmt.Printf("%d %.0f %.0f %.0f %.0f\n", tasks, clientRate, otherRate, clientUsed, otherUsed)
		}
	}
}

// run returns the cycles of a second, and the microseconds of processor time of a cycle.
func run(cycles []func(), isOver func(count int64) bool) (rate, used float64) {
	var count atomic.Int64
	var running sync.WaitGroup
	began, before := time.Now(), processorTime()
	for _, cycle := range cycles {
		running.Add(1)
		go func(cycle func()) {
			defer running.Done()
			for ; !isOver(count.Load()); count.Add(1) {
				cycle()
			}
		}(cycle)
	}
	running.Wait()
	elapsed, processor := time.Since(began), processorTime()-before
	counted := float64(count.Load())
	return counted / elapsed.Seconds(), float64(processor.Microseconds()) / counted
}

func locked(hf *holdfast.Client, task int) func() {
	name := fmt.Sprintf("client-%d", task)
	return func() {
		_, guard, err := hf.Lock(context.Background(), name)
		Check(err)
		Check(guard.Release())
	}
}

// processorTime is that of this process, since its start.
func processorTime() time.Duration {
	var usage syscall.Rusage
	Check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	Check(err)
	return value
}

// Check ends the program with an error.
func Check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
