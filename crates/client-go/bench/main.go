// Bench counts cycles of one acquire and one release: bench TURNS SECONDS.
//
// Each turn prints a line for 1 and for 64 tasks: the tasks, the cycles of a second by the client and by a bare loop, and the
// processor time of a cycle in microseconds by both. Each task has one lock. The bare loop sends the same calls by net/http,
// on one connection a task, to the first address in HOLDFAST_ADDR.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
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
	tasksMax        = 64
	warmingUpCycles = 4000
)

func main() {
	turns, seconds := number(os.Args[1]), number(os.Args[2])
	addresses := strings.Split(os.Getenv("HOLDFAST_ADDR"), ",")
	hf, err := holdfast.New(holdfast.Config{Addresses: addresses})
	check(err)
	defer hf.Close()
	plain := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: tasksMax}}

	var client, bare []func()
	for task := 0; task < tasksMax; task++ {
		client = append(client, locked(hf, task))
		bare = append(bare, sent(plain, addresses[0], task))
	}
	for _, cycles := range [][]func(){client, bare} {
		run(cycles, func(count int64) bool { return count >= warmingUpCycles })
	}
	for turn := 0; turn < turns; turn++ {
		for _, tasks := range []int{1, tasksMax} {
			during := func(cycles []func()) (float64, float64) {
				until := time.Now().Add(time.Duration(seconds) * time.Second)
				return run(cycles[:tasks], func(int64) bool { return time.Now().After(until) })
			}
			clientRate, clientUsed := during(client)
			bareRate, bareUsed := during(bare)
			fmt.Printf("%d %.0f %.0f %.0f %.0f\n", tasks, clientRate, bareRate, clientUsed, bareUsed)
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
		check(err)
		check(guard.Release())
	}
}

func sent(client *http.Client, address string, task int) func() {
	attempt := time.Now().UnixMicro()
	send := func(method, more string) {
		target := fmt.Sprintf("http://%s/v1/locks/bare-%d?session=bare-%d&owner=task-%d&attempt=%d%s",
			address, task, os.Getpid(), task, attempt, more)
		request, err := http.NewRequest(method, target, nil)
		check(err)
		answer, err := client.Do(request)
		check(err)
		body, err := io.ReadAll(answer.Body)
		check(err)
		answer.Body.Close()
		if answer.StatusCode >= 300 {
			log.Fatalf("%s: %s", answer.Status, body)
		}
	}
	return func() {
		attempt++
		send(http.MethodPut, "&wait=30s&ttl=1m")
		send(http.MethodDelete, "")
	}
}

// processorTime is that of this process, since its start.
func processorTime() time.Duration {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
