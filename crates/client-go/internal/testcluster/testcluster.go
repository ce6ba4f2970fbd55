// Package testcluster runs a real cluster for the tests of the Go modules. HOLDFAST_BIN names the program.
package testcluster

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// firstPort is the first port that a cluster may take; HOLDFAST_TEST_PORT replaces it. The system gives none of these
// ports to a connection that a program opens.
const firstPort = 30500

var nextPort atomic.Int64

// A Cluster is a cluster of holdfast dev.
type Cluster struct {
	Addresses []string
	// CA and AccessTokenFile are files of a cluster with the option --secure.
	CA, AccessTokenFile string
	commands            io.Writer
}

// Start starts a cluster, and stops it at the end of the test. It skips the test without HOLDFAST_BIN.
func Start(t testing.TB, nodes int, options ...string) *Cluster {
	t.Helper()
	c, stop, err := Run(nodes, options...)
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		t.Skip("HOLDFAST_BIN does not name the program holdfast")
	}
	t.Cleanup(stop)
	return c
}

// Run starts a cluster. It returns nil without HOLDFAST_BIN.
func Run(nodes int, options ...string) (*Cluster, func(), error) {
	program := os.Getenv("HOLDFAST_BIN")
	if program == "" {
		return nil, func() {}, nil
	}
	port := freePort(nodes)
	arguments := []string{"dev", "--nodes", strconv.Itoa(nodes), "--port", strconv.Itoa(port), "--commands"}
	command := exec.Command(program, append(arguments, options...)...)
	command.Stderr = io.Discard
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := command.Start(); err != nil {
		return nil, nil, err
	}
	stop := func() {
		io.WriteString(stdin, "stop\n")
		stdin.Close()
		command.Wait()
	}
	c := &Cluster{commands: stdin}
	for node := 0; node < nodes; node++ {
		c.Addresses = append(c.Addresses, fmt.Sprintf("127.0.0.1:%d", port+10*node))
	}
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), "=")
			switch {
			case name == "export HOLDFAST_CACERT":
				c.CA = value
			case name == "export HOLDFAST_ACCESS_TOKEN_FILE":
				c.AccessTokenFile = value
			case strings.HasPrefix(name, "ready "):
				ready <- true
			}
		}
		close(ready)
	}()
	select {
	case isReady := <-ready:
		if isReady {
			return c, stop, nil
		}
	case <-time.After(60 * time.Second):
	}
	stop()
	return nil, nil, fmt.Errorf("no leader within a minute")
}

// freePort returns a port that is free for all nodes.
func freePort(nodes int) int {
	first := firstPort
	if text := os.Getenv("HOLDFAST_TEST_PORT"); text != "" {
		first, _ = strconv.Atoi(text)
	}
	for {
		port := first + int(nextPort.Add(1)-1)%40*50
		if isFree(port, nodes) {
			return port
		}
	}
}

func isFree(port, nodes int) bool {
	for node := 0; node < nodes; node++ {
		for offset := 0; offset < 3; offset++ {
			listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+10*node+offset))
			if err != nil {
				return false
			}
			listener.Close()
		}
	}
	return true
}

// Command sends a command, such as "pause 1", to holdfast dev.
func (c *Cluster) Command(t testing.TB, command string) {
	t.Helper()
	if _, err := io.WriteString(c.commands, command+"\n"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
}

var leaderField = regexp.MustCompile(`"leader":(\d+)`)

// Leader returns the number of the leader, from 1.
func (c *Cluster) Leader(t testing.TB) int {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		for _, address := range c.Addresses {
			connection, err := net.DialTimeout("tcp", address, time.Second)
			if err != nil {
				continue
			}
			connection.SetDeadline(time.Now().Add(2 * time.Second))
			fmt.Fprintf(connection, "GET /v1/cluster HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", address)
			answer, _ := io.ReadAll(connection)
			connection.Close()
			if match := leaderField.FindSubmatch(answer); match != nil {
				leader, _ := strconv.Atoi(string(match[1]))
				return leader
			}
		}
	}
	t.Fatal("the cluster has no leader")
	return 0
}
