// Peers measures the client beside the mutex of etcd's client: peers TURNS SECONDS etcd.
//
// All tasks share one session on the servers in PEER_ADDR.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/holdfast/holdfast/crates/client-go/bench/internal/speed"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(os.Getenv("PEER_ADDR"), ",")})
	speed.Check(err)
	defer client.Close()
	session, err := concurrency.NewSession(client)
	speed.Check(err)
	defer session.Close()
	speed.Measure(func(task int) func() {
		mutex := concurrency.NewMutex(session, fmt.Sprintf("/locks/peer-%d", task))
		return func() {
			speed.Check(mutex.Lock(context.Background()))
			speed.Check(mutex.Unlock(context.Background()))
		}
	})
}
