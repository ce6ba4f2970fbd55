// Bench measures the client beside a bare loop of the same calls: bench TURNS SECONDS.
//
// The loop sends them by net/http, on one connection a task, to the first address in HOLDFAST_ADDR.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/holdfast/holdfast/crates/client-go/bench/internal/speed"
)

func main() {
	plain := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: speed.TasksMax}}
	speed.Measure(func(task int) func() { return sent(plain, speed.Addresses()[0], task) })
}

func sent(client *http.Client, address string, task int) func() {
	attempt := time.Now().UnixMicro()
	send := func(method, more string) {
		target := fmt.Sprintf("http://%s/v1/locks/bare-%d?session=bare-%d&owner=task-%d&attempt=%d%s",
			address, task, os.Getpid(), task, attempt, more)
		request, err := http.NewRequest(method, target, nil)
		speed.Check(err)
		answer, err := client.Do(request)
		speed.Check(err)
		body, err := io.ReadAll(answer.Body)
		speed.Check(err)
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
