package holdfast_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	holdfast "github.com/holdfast/holdfast/crates/client-go"
	"github.com/holdfast/holdfast/crates/client-go/internal/testcluster"
)

func TestALockSurvivesTheDeathOfTheLeader(t *testing.T) {
	cluster := testcluster.Start(t, 3)
	holder, waiter := newClient(t, cluster, holdfast.Config{TTL: 5 * time.Second}), newClient(t, cluster, holdfast.Config{})
	_, guard := mustLock(t, holder, "a")
	granted := make(chan int64, 1)
	go func() {
		_, next, err := waiter.Lock(background(t), "a")
		if err != nil {
			t.Error(err)
			granted <- 0
			return
		}
		granted <- next.Token()
		next.Release()
	}()
	awaitState(t, holder, "a", func(s *holdfast.LockState) bool { return s.Waiters == 1 })
	cluster.Command(t, fmt.Sprint("kill ", cluster.Leader(t)))
	for until := time.Now().Add(7 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if err := guard.Ensure(); err != nil {
			t.Fatal(err)
		}
	}
	if err := guard.Release(); err != nil {
		t.Fatal(err)
	}
	if token := <-granted; token <= guard.Token() {
		t.Error(token, guard.Token())
	}
}

func TestAFrozenNodeDelaysNoCallForLong(t *testing.T) {
	cluster := testcluster.Start(t, 3)
	client := newClient(t, cluster, holdfast.Config{TTL: 6 * time.Second})
	_, guard := mustLock(t, client, "held")
	for frozen := 1; frozen <= 3; frozen++ {
		isLeader := frozen == cluster.Leader(t)
		cluster.Command(t, fmt.Sprint("pause ", frozen))
		started := time.Now()
		_, other := mustLock(t, client, fmt.Sprint("other-", frozen))
		limit := 2 * time.Second
		if isLeader {
			limit = 8 * time.Second // the election included
		}
		if took := time.Since(started); took > limit {
			t.Errorf("node %d (leader: %v) delayed an acquire for %v", frozen, isLeader, took)
		}
		if err := errors.Join(other.Release(), guard.Ensure()); err != nil {
			t.Fatal(err)
		}
		cluster.Command(t, fmt.Sprint("resume ", frozen))
		time.Sleep(time.Second)
	}
	if err := guard.Release(); err != nil {
		t.Error(err)
	}
}

func TestAWaiterBehindAFrozenNodeGetsItsGrant(t *testing.T) {
	cluster := testcluster.Start(t, 3)
	leader := cluster.Leader(t)
	follower := leader%3 + 1
	holder, waiter := newClient(t, cluster, holdfast.Config{}), newClient(t, cluster, holdfast.Config{TTL: 6 * time.Second})
	_, guard := mustLock(t, holder, "a")
	granted := make(chan error, 1)
	go func() {
		_, next, err := waiter.Lock(background(t), "a", holdfast.Wait(30*time.Second))
		if err == nil {
			err = errors.Join(next.Ensure(), next.Release())
		}
		granted <- err
	}()
	awaitState(t, holder, "a", func(s *holdfast.LockState) bool { return s.Waiters == 1 })
	time.Sleep(time.Second)
	cluster.Command(t, fmt.Sprint("pause ", follower))
	defer cluster.Command(t, fmt.Sprint("resume ", follower))
	if err := guard.Release(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-granted:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("no grant")
	}
}

func TestWithoutAClusterTheGuardIsLostBeforeItsTTL(t *testing.T) {
	cluster := testcluster.Start(t, 3)
	client := newClient(t, cluster, holdfast.Config{TTL: 3 * time.Second, RequestTimeout: time.Second})
	ctx, guard := mustLock(t, client, "a")
	for node := 1; node <= 3; node++ {
		cluster.Command(t, fmt.Sprint("pause ", node))
	}
	started := time.Now()
	lost := awaitLoss(t, ctx, 4*time.Second)
	if lost.Cause != holdfast.CauseNotRenewed || time.Since(started) > 3*time.Second {
		t.Error(lost, time.Since(started))
	}
	var wrong *holdfast.LostError
	if err := guard.Ensure(); !errors.As(err, &wrong) || guard.Remaining() != 0 {
		t.Error(err)
	}
	for node := 1; node <= 3; node++ {
		cluster.Command(t, fmt.Sprint("resume ", node))
	}
	_, next := mustLock(t, client, "a")
	if next.Token() <= guard.Token() || guard.Ensure() == nil {
		t.Error("a lost guard stays lost", next, guard)
	}
	next.Release()
	guard.Release()
}

func TestAllNodesRestarted(t *testing.T) {
	cluster := testcluster.Start(t, 3)
	client := newClient(t, cluster, holdfast.Config{TTL: 20 * time.Second})
	_, guard := mustLock(t, client, "a")
	watch, err := client.Watch(background(t), "/cfg/")
	if err != nil {
		t.Fatal(err)
	}
	for node := 1; node <= 3; node++ {
		cluster.Command(t, fmt.Sprint("restart ", node))
	}
	time.Sleep(2 * time.Second)
	if _, err := client.Put(background(t), "/cfg/x", []byte("1"), holdfast.AnyVersion); err != nil {
		t.Fatal(err)
	}
	for change := range watch.Changes() {
		if change.Path == "/cfg/x" {
			break
		}
	}
	if err := errors.Join(guard.Ensure(), guard.Release()); err != nil {
		t.Error(err)
	}
}

// A proxy forwards connections to a node. It can close each connection without its next answer.
type proxy struct {
	address    string
	losesNext  atomic.Bool
	isCut      atomic.Bool
	lostAnswer atomic.Int64
}

func startProxy(t *testing.T, node string) *proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	p := &proxy{address: listener.Addr().String()}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client, node)
		}
	}()
	return p
}

func (p *proxy) serve(client net.Conn, node string) {
	defer client.Close()
	server, err := net.Dial("tcp", node)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		io.Copy(server, client)
		server.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		isGrant := strings.Contains(string(buffer[:n]), `"token":`)
		if p.isCut.Load() {
			time.Sleep(time.Hour)
		}
		if isGrant && p.losesNext.CompareAndSwap(true, false) {
			p.lostAnswer.Add(1)
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func TestALostAnswerOfAnAcquireIsRepeated(t *testing.T) {
	cluster := testcluster.Start(t, 1)
	p := startProxy(t, cluster.Addresses[0])
	client := newClient(t, &testcluster.Cluster{Addresses: []string{p.address}}, holdfast.Config{})
	p.losesNext.Store(true)
	_, guard := mustLock(t, client, "a", holdfast.Wait(5*time.Second))
	if p.lostAnswer.Load() != 1 {
		t.Fatal("no answer was lost")
	}
	if err := errors.Join(guard.Ensure(), guard.Release()); err != nil {
		t.Error(err)
	}
	awaitState(t, client, "a", func(s *holdfast.LockState) bool { return !s.Held && s.Waiters == 0 })
	// A call with copies goes to another node while one is cut off.
	q := startProxy(t, cluster.Addresses[0])
	q.isCut.Store(true)
	both := newClient(t, &testcluster.Cluster{Addresses: []string{q.address, p.address}}, holdfast.Config{})
	started := time.Now()
	_, guard = mustLock(t, both, "b", holdfast.Wait(5*time.Second))
	if took := time.Since(started); took > 2*time.Second {
		t.Error(took)
	}
	guard.Release()
}

// A program is the adapter as a separate process.
type program struct {
	command *exec.Cmd
	stdin   io.Writer
	lines   chan map[string]any
}

func startAdapter(t *testing.T) *program {
	t.Helper()
	path := filepath.Join(t.TempDir(), "adapter")
	if out, err := exec.Command("go", "build", "-o", path, "./adapter").CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	command := exec.Command(path)
	stdin, _ := command.StdinPipe()
	stdout, _ := command.StdoutPipe()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := &program{command, stdin, make(chan map[string]any, 100)}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			var line map[string]any
			if json.Unmarshal(lines.Bytes(), &line) == nil {
				p.lines <- line
			}
		}
	}()
	return p
}

func (p *program) send(t *testing.T, request map[string]any) {
	line, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(p.stdin, "%s\n", line)
}

// receive returns the next line that fits.
func (p *program) receive(t *testing.T, within time.Duration, fits func(map[string]any) bool) map[string]any {
	t.Helper()
	timer := time.After(within)
	for {
		select {
		case line := <-p.lines:
			if fits(line) {
				return line
			}
		case <-timer:
			t.Fatal("no such line")
		}
	}
}

func isAnswer(id float64) func(map[string]any) bool {
	return func(line map[string]any) bool { return line["id"] == id }
}

func TestAPausedProcessSeesTheLossAndItsSuccessorALargerToken(t *testing.T) {
	if shared == nil {
		t.Skip("HOLDFAST_BIN does not name the program holdfast")
	}
	paused := startAdapter(t)
	paused.send(t, map[string]any{"id": 1, "do": "client", "name": "c", "addresses": shared.Addresses, "ttl_ms": 2000})
	paused.receive(t, 5*time.Second, isAnswer(1))
	paused.send(t, map[string]any{"id": 2, "do": "acquire", "client": "c", "lock": "paused", "guard": "g"})
	answer := paused.receive(t, 5*time.Second, isAnswer(2))
	token := answer["ok"].(map[string]any)["token"].(float64)
	paused.command.Process.Signal(syscall.SIGSTOP)
	successor := newClient(t, shared, holdfast.Config{})
	_, guard := mustLock(t, successor, "paused", holdfast.Wait(10*time.Second))
	if float64(guard.Token()) <= token {
		t.Error(guard.Token(), token)
	}
	paused.command.Process.Signal(syscall.SIGCONT)
	paused.send(t, map[string]any{"id": 3, "do": "ensure", "guard": "g"})
	answer = paused.receive(t, 5*time.Second, isAnswer(3))
	if kind := answer["error"].(map[string]any)["kind"]; kind != "lost" {
		t.Error(answer)
	}
	if err := errors.Join(guard.Ensure(), guard.Release()); err != nil {
		t.Error(err)
	}
}

func TestAKilledProcessFreesItsLockAfterTheTTL(t *testing.T) {
	if shared == nil {
		t.Skip("HOLDFAST_BIN does not name the program holdfast")
	}
	killed := startAdapter(t)
	killed.send(t, map[string]any{"id": 1, "do": "client", "name": "c", "addresses": shared.Addresses, "ttl_ms": 1500})
	killed.send(t, map[string]any{"id": 2, "do": "info"})
	killed.receive(t, 5*time.Second, isAnswer(1))
	killed.send(t, map[string]any{"id": 3, "do": "acquire", "client": "c", "lock": "killed", "guard": "g"})
	killed.receive(t, 5*time.Second, isAnswer(3))
	killed.command.Process.Kill()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, guard, err := newClient(t, shared, holdfast.Config{}).Lock(ctx, "killed")
	if err != nil {
		t.Fatal(err)
	}
	guard.Release()
}
