// The lock of github.com/go-zookeeper/zk. See runner.py for the lines on stdin and stdout.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

type silent struct{}

func (silent) Printf(string, ...interface{}) {}

var output sync.Mutex

func say(words ...string) {
	output.Lock()
	defer output.Unlock()
	fmt.Println(strings.Join(words, " "))
}

func run(connection *zk.Conn, name, path string, released chan struct{}) {
	lock := zk.NewLock(connection, path, zk.WorldACL(zk.PermAll))
	if err := lock.Lock(); err != nil {
		say(name, "refused", strings.ReplaceAll(err.Error(), " ", "-"))
		return
	}
	say(name, "holds")
	<-released
	if err := lock.Unlock(); err != nil {
		say(name, "refused", "unlock")
		return
	}
	say(name, "released")
}

func main() {
	connections := map[byte]*zk.Conn{}
	for _, role := range []byte("ab") {
		connection, _, err := zk.Connect(strings.Split(os.Args[1], ","), 30*time.Second, zk.WithLogger(silent{}))
		if err != nil {
			panic(err)
		}
		connections[role] = connection
	}
	say("ready", "ready")
	released := map[string]chan struct{}{}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		words := strings.Fields(input.Text())
		name := words[1]
		if words[0] == "acquire" {
			released[name] = make(chan struct{})
			go run(connections[name[len(name)-1]], name, words[3], released[name])
		} else {
			close(released[name])
		}
	}
}
