package holdfast

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// A sentCall is a call that a fake node received: PUT /v1/locks/orders with its parameters.
type sentCall struct {
	name  string
	query url.Values
	at    time.Time
}

// noAnswer leaves a call open until its client ends it, and dropped closes the connection instead of an answer.
const noAnswer, dropped = 0, -1

// A fakeNode answers each call by a function, with a status and a body. The header Retry-After has the whole seconds of the
// fact retry_after_ms, as that of a node.
type fakeNode struct {
	address string
	mu      sync.Mutex
	calls   []sentCall
}

func startNode(t *testing.T, answer func(sentCall) (status int, body string)) *fakeNode {
	node := &fakeNode{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // Only then, the server sees that a client ends the call.
		received := sentCall{r.Method + " " + r.URL.Path, r.URL.Query(), time.Now()}
		node.mu.Lock()
		node.calls = append(node.calls, received)
		status, body := answer(received)
		node.mu.Unlock()
		switch status {
		case noAnswer:
			<-r.Context().Done()
			return
		case dropped:
			panic(http.ErrAbortHandler)
		}
		var problem Problem
		if json.Unmarshal([]byte(body), &problem) == nil && problem.RetryAfterMS > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(problem.RetryAfterMS/1_000))
		}
		if r.Method == http.MethodDelete && status == http.StatusOK && strings.HasPrefix(body, "{") {
			status, body = http.StatusNoContent, ""
		}
		if accepted := r.Header.Get("Accept"); accepted != "" && status == http.StatusOK {
			w.Header().Set("Content-Type", accepted)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	node.address = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return node
}

// named returns the calls whose name begins like this.
func (n *fakeNode) named(prefix string) []sentCall {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found []sentCall
	for _, c := range n.calls {
		if strings.HasPrefix(c.name, prefix) {
			found = append(found, c)
		}
	}
	return found
}

// change changes the script between two answers.
func (n *fakeNode) change(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func (n *fakeNode) client(t *testing.T, config Config) *Client {
	t.Helper()
	config.Addresses = append(config.Addresses, n.address)
	client, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func problemOf(status int, code string, retryable bool) (int, string) {
	return status, fmt.Sprintf(`{"code":%q,"title":"no","status":%d,"retryable":%v}`, code, status, retryable)
}

// A script answers the calls that open sessions, each with the next incarnation, and leaves keepalives without an answer.
type script struct {
	opened  int
	leaseMS int
	others  func(sentCall) (int, string)
}

func (s *script) answer(c sentCall) (int, string) {
	switch {
	case strings.HasPrefix(c.name, "PUT /v1/sessions/"):
		s.opened++
		return http.StatusOK, fmt.Sprintf(`{"session":"s","incarnation":%d,"expires_in_ms":%d,"revision":1}`, s.opened, s.leaseMS)
	case c.name == "GET "+pingPath:
		return http.StatusOK, "{}"
	case strings.HasSuffix(c.name, "/keepalive"):
		return 0, ""
	case strings.HasPrefix(c.name, "DELETE /v1/sessions/"):
		return http.StatusNoContent, ""
	}
	return s.others(c)
}

func (s *script) grant(token int, more string) (int, string) {
	return http.StatusOK, fmt.Sprintf(`{"lock":"orders","mode":"exclusive","token":%d,"expires_in_ms":%d%s}`, token, s.leaseMS, more)
}

func TestAnEndedSessionIsReplacedDuringAnAcquireUnlessItIsNamed(t *testing.T) {
	s := &script{leaseMS: 30_000}
	s.others = func(c sentCall) (int, string) {
		if c.query.Get("incarnation") == "1" {
			return problemOf(http.StatusGone, CodeSessionExpired, false)
		}
		return s.grant(7, "")
	}
	node := startNode(t, s.answer)
	client := node.client(t, Config{})
	_, guard, err := client.TryLock(context.Background(), "orders")
	if err != nil || guard.Token() != 7 || guard.Ensure() != nil {
		t.Fatal(guard, err)
	}
	node.change(func() { s.opened = 0 })
	named := node.client(t, Config{Session: "nightly"})
	opened := len(node.named("PUT /v1/sessions/nightly"))
	for range []int{1, 2} {
		var lost *LostError
		if _, _, err := named.TryLock(context.Background(), "orders"); !errors.As(err, &lost) || lost.Cause != CauseSessionEnded {
			t.Error(err)
		}
	}
	if again := len(node.named("PUT /v1/sessions/nightly")); again != opened+1 {
		t.Error("a named session was opened again", again)
	}
}

func TestAnEndedSessionLosesItsGuards(t *testing.T) {
	s := &script{leaseMS: 30_000}
	s.others = func(c sentCall) (int, string) {
		if c.name != "PUT /v1/locks/orders" || c.query.Has("change") {
			return problemOf(http.StatusGone, CodeSessionExpired, false)
		}
		return s.grant(7, `,"permits":2`)
	}
	client := startNode(t, s.answer).client(t, Config{Session: "nightly"})
	for _, call := range []func(*Guard) error{
		func(g *Guard) error { return g.SetValue(context.Background(), "x") },
		func(g *Guard) error { return g.Downgrade(context.Background(), Shared) },
		func(g *Guard) error { return g.ReleasePermits(context.Background(), 1) },
	} {
		client := startNode(t, s.answer).client(t, Config{})
		ctx, guard, err := client.TryLock(context.Background(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		var lost *LostError
		if err := call(guard); !errors.As(err, &lost) || lost.Cause != CauseSessionEnded {
			t.Error(err)
		}
		<-ctx.Done()
	}
	ctx, guard, err := client.TryLock(context.Background(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := client.TryLock(context.Background(), "stock"); err == nil {
		t.Error("acquired in an ended session")
	}
	<-ctx.Done()
	var lost *LostError
	if err := guard.Ensure(); !errors.As(err, &lost) || lost.Cause != CauseSessionEnded {
		t.Error(err)
	}
}

// A waiter whose session is over by its clock, while no keepalive is answered.
func TestAWaiterWhoseSessionExpiredQueuesAgainOrIsUnavailable(t *testing.T) {
	s := &script{leaseMS: 300}
	s.others = func(c sentCall) (int, string) {
		switch {
		case strings.HasPrefix(c.name, "DELETE"):
			return http.StatusOK, "{}"
		case c.query.Get("incarnation") == "1":
			return 0, ""
		}
		s.leaseMS = 30_000
		return s.grant(7, "")
	}
	node := startNode(t, s.answer)
	locker := node.client(t, Config{}).Locker("orders", Wait(time.Millisecond))
	locker.Lock()
	if locker.Guard().Token() != 7 || locker.Guard().Ensure() != nil {
		t.Error(locker.Guard())
	}
	if wait := node.named("PUT /v1/locks/orders")[0].query.Get("wait"); wait != wholeMillis(waitMax) {
		t.Error("a Locker has no bound", wait)
	}
	if released := node.named("DELETE /v1/locks/orders"); len(released) != 1 || released[0].query.Get("attempt") == "" {
		t.Error("the first place stays in the queue", released)
	}
	locker.Unlock()
	node.change(func() { s.opened, s.leaseMS = 0, 300 })
	named := node.client(t, Config{Session: "nightly"})
	var unavailable *UnavailableError
	if _, _, err := named.Lock(context.Background(), "orders"); !errors.As(err, &unavailable) {
		t.Error(err)
	}
}

func TestALostGuardOfANamedSessionIsReleasedLate(t *testing.T) {
	s := &script{leaseMS: 300}
	releases := 0
	done := make(chan struct{})
	s.others = func(c sentCall) (int, string) {
		if c.name != "DELETE /v1/locks/orders" {
			return s.grant(7, "")
		}
		if releases++; releases < 8 {
			return problemOf(http.StatusServiceUnavailable, CodeOutcomeUnknown, true)
		}
		close(done)
		return http.StatusOK, "{}"
	}
	node := startNode(t, s.answer)
	ctx, guard, err := node.client(t, Config{Session: "nightly", RequestTimeout: 500 * time.Millisecond}).TryLock(context.Background(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	var lost *LostError
	if err := guard.Release(); !errors.As(err, &lost) || lost.Cause != CauseNotRenewed {
		t.Fatal(err)
	}
	<-done
	acquired, released := node.named("PUT /v1/locks/orders"), node.named("DELETE /v1/locks/orders")
	for _, release := range released {
		if attempt := release.query.Get("attempt"); attempt == "" || attempt != acquired[0].query.Get("attempt") {
			t.Error(release)
		}
	}
}

func TestTheReleaseOfALostGuardEndsWithTheClient(t *testing.T) {
	s := &script{leaseMS: 300}
	s.others = func(c sentCall) (int, string) {
		if c.name == "PUT /v1/locks/orders" {
			return s.grant(7, "")
		}
		return problemOf(http.StatusServiceUnavailable, CodeOutcomeUnknown, true)
	}
	client := startNode(t, s.answer).client(t, Config{Session: "nightly", RequestTimeout: 500 * time.Millisecond})
	ctx, guard, err := client.TryLock(context.Background(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	guard.Release()
	client.Close()
	guard.session.settle(time.Minute)
	guard.session.mu.Lock()
	defer guard.session.mu.Unlock()
	if guard.session.pending != 0 {
		t.Error("the release goes on after Close")
	}
}

func TestAReceiverAdoptsTheHoldWithACallThatNeverAcquires(t *testing.T) {
	s := &script{leaseMS: 30_000}
	reads := 0
	s.others = func(c sentCall) (int, string) {
		switch {
		case c.name == "GET /v1/locks/orders":
			reads++
			return http.StatusOK, fmt.Sprintf(`{"lock":"orders","holders":[{"session":"nightly","token":%d}],"revision":1}`, reads)
		case c.name == "PUT /v1/locks/orders" && reads == 1:
			// The hold has ended since.
			return problemOf(http.StatusConflict, CodeNotHolder, false)
		case c.name == "PUT /v1/locks/orders":
			return s.grant(reads, `,"ends_in_ms":60000`)
		}
		return http.StatusOK, `{"revision":2}`
	}
	node := startNode(t, s.answer)
	_, guard, err := node.client(t, Config{Session: "nightly"}).ReceiveTransfer(context.Background(), "orders")
	if err != nil || guard.Token() != 2 || guard.Ensure() != nil {
		t.Fatal(guard, err)
	}
	calls := node.named("PUT /v1/locks/orders")
	for _, c := range calls {
		q := c.query
		if q.Get("change") != "0" || q.Get("attempt") == "" || q.Get("incarnation") != "1" || q.Get("session") != "nightly" {
			t.Error(q)
		}
	}
	if len(calls) != 2 || calls[0].query.Get("attempt") == calls[1].query.Get("attempt") {
		t.Error(calls)
	}
	if guard.entry.limits.maxHold != time.Minute {
		t.Error("the end of the sender's hold", guard.entry.limits)
	}
	if err := guard.Release(); err != nil {
		t.Error(err)
	}
	if q := node.named("DELETE /v1/locks/orders")[0].query; q.Get("token") != "2" || q.Has("attempt") {
		t.Error(q)
	}
}

func TestAReceiverThatCannotAdoptTheHoldWaitsForAChangeAndForItsTime(t *testing.T) {
	s := &script{leaseMS: 30_000}
	s.others = func(c sentCall) (int, string) {
		switch c.name {
		case "GET /v1/locks/orders":
			return http.StatusOK, `{"lock":"orders","holders":[{"session":"nightly","token":7}],"revision":1}`
		case "PUT /v1/locks/orders":
			return problemOf(http.StatusConflict, CodeNotHolder, false)
		}
		return 0, ""
	}
	node := startNode(t, s.answer)
	client := node.client(t, Config{Session: "nightly", RequestTimeout: 500 * time.Millisecond})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, _, err := client.ReceiveTransfer(ctx, "orders", Wait(500*time.Millisecond))
	if problem := ProblemOf(err); problem == nil || problem.Code != CodeNotYet {
		t.Error(err)
	}
	if changes := node.named("PUT /v1/locks/orders"); len(changes) > 4 {
		t.Error("adoptions:", len(changes))
	}
}

func TestASecondLeaveEndsNoOtherUseOfTheSession(t *testing.T) {
	s := &script{leaseMS: 30_000}
	s.others = func(sentCall) (int, string) { return http.StatusOK, `{"generation":3,"index":0,"parties":1}` }
	client := startNode(t, s.answer).client(t, Config{})
	background := context.Background()
	guard, err := client.DoubleBarrier("start", 1).Enter(background, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	session, err := client.session(background, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(guard.Leave(background, time.Second), guard.Leave(background, time.Second)); err != nil {
		t.Error(err)
	}
	session.mu.Lock()
	defer session.mu.Unlock()
	if session.users != 1 {
		t.Error("users:", session.users)
	}
}

func TestACancelledLeaveOfAGroupGoesOnInTheBackground(t *testing.T) {
	s := &script{leaseMS: 30_000}
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan struct{})
	calls := 0
	s.others = func(sentCall) (int, string) {
		switch calls++; calls {
		case 2:
			cancel()
			return 0, ""
		case 3:
			close(left)
		}
		return http.StatusOK, `{"results":[]}`
	}
	member, err := startNode(t, s.answer).client(t, Config{}).Group("web").Join(ctx, "10.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	if err := member.Leave(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case <-left:
	case <-time.After(30 * time.Second):
		t.Error("the member stays")
	}
}

func TestEachCallThatAcquiresOrChangesNamesTheIncarnation(t *testing.T) {
	s := &script{leaseMS: 30_000}
	s.others = func(c sentCall) (int, string) {
		if c.name == "POST /v1/locks" {
			_, one := s.grant(8, "")
			return http.StatusOK, fmt.Sprintf(`{"grants":[%s,%s]}`, one, strings.Replace(one, "orders", "stock", 1))
		}
		return s.grant(7, "")
	}
	node := startNode(t, s.answer)
	client := node.client(t, Config{})
	background := context.Background()
	_, guard, err := client.TryLock(background, "orders", InMode(Upgradable))
	if err != nil {
		t.Fatal(err)
	}
	_, upgradeErr := guard.Upgrade(background, 0)
	_, _, manyErr := client.LockMany(background, []string{"orders", "stock"})
	if err := errors.Join(upgradeErr, guard.SetValue(background, "x"), guard.Downgrade(background, Shared), manyErr); err != nil {
		t.Error(err)
	}
	calls := append(node.named("PUT /v1/locks/orders"), node.named("POST /v1/locks")...)
	for _, c := range calls {
		if c.query.Get("incarnation") != "1" {
			t.Error(c)
		}
	}
	if len(calls) != 5 {
		t.Error(calls)
	}
}

func refusal(bound string, retryAfterMS int) string {
	return fmt.Sprintf(`{"code":"rate-limited","title":"no","retryable":true,"bound":%q,"retry_after_ms":%d}`, bound, retryAfterMS)
}

func TestACallIsRepeatedAfterTheTimeOfRetryAfter(t *testing.T) {
	for _, test := range []struct {
		name     string
		status   int
		bound    string
		nodes    int
		timeout  time.Duration
		options  []LockOption
		isPaused bool
	}{
		{"a node is unavailable", 503, "", 1, 0, nil, true},
		{"another node is not", 503, "", 2, 0, nil, false},
		{"a node has as much as it allows", 429, "watches of one node", 1, 0, nil, true},
		{"another node has not", 429, "watches of one node", 2, 0, nil, false},
		{"a quota of calls is used up", 429, "calls_per_second of the subject", 1, 0, nil, true},
		{"it counts at each node", 429, "calls_per_second of the subject", 2, 0, nil, true},
		{"the wait goes on after the request timeout", 503, "", 1, 500 * time.Millisecond, []LockOption{Wait(20 * time.Second)}, true},
	} {
		test := test
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var acquires []time.Time
			s := &script{leaseMS: 30_000}
			s.others = func(c sentCall) (int, string) {
				acquires = append(acquires, c.at)
				if len(acquires) == 1 {
					return test.status, refusal(test.bound, 1_000)
				}
				return s.grant(5, "")
			}
			answer := func(c sentCall) (int, string) {
				mu.Lock()
				defer mu.Unlock()
				return s.answer(c)
			}
			config := Config{RequestTimeout: test.timeout}
			for range make([]int, test.nodes-1) {
				config.Addresses = append(config.Addresses, startNode(t, answer).address)
			}
			client := startNode(t, answer).client(t, config)
			if _, _, err := client.Lock(context.Background(), "orders", test.options...); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			pause := acquires[1].Sub(acquires[0])
			if len(acquires) != 2 || pause >= time.Second != test.isPaused {
				t.Error(len(acquires), "calls, the second one after", pause)
			}
		})
	}
}

func TestACallFailsAtOnceIfRetryAfterIsBeyondItsTime(t *testing.T) {
	node := startNode(t, func(sentCall) (int, string) {
		return 429, refusal("", 3_600_000)
	})
	client := node.client(t, Config{RequestTimeout: 20 * time.Second})
	began := time.Now()
	_, err := client.LockState(context.Background(), "orders")
	var unavailable *UnavailableError
	if !errors.As(err, &unavailable) || unavailable.Problem.Code != CodeRateLimited || time.Since(began) > 10*time.Second {
		t.Error(err, time.Since(began))
	}
	if sent := len(node.named("GET ")); sent != 1 {
		t.Error(sent, "calls")
	}
}

func TestTheNextCallBeginsAtANodeThatAcceptsIt(t *testing.T) {
	full := startNode(t, func(sentCall) (int, string) { return 429, refusal("calls waiting on one node", 60_000) })
	other := startNode(t, func(sentCall) (int, string) { return problemOf(503, CodeStarting, true) })
	client := other.client(t, Config{Addresses: []string{full.address}, RequestTimeout: 500 * time.Millisecond})
	client.calls.nodes.prefer(0)
	if _, err := client.LockState(context.Background(), "orders"); err == nil {
		t.Error("no error")
	}
	if order := client.calls.nodes.order(); order[0] != 1 || len(full.named("GET /v1/locks")) != 1 {
		t.Error(order, full.named("GET "))
	}
}

func TestANodeThatRefusedACallComesLastAfterTheAnswerOfAnother(t *testing.T) {
	full := startNode(t, func(sentCall) (int, string) { return 429, refusal("calls waiting on one node", 60_000) })
	other := startNode(t, func(sentCall) (int, string) { return 200, `{"lock":"orders","holders":[],"revision":1}` })
	client := other.client(t, Config{Addresses: []string{full.address}})
	for range make([]int, 3) {
		client.calls.nodes.prefer(0) // as the leader, which each call tries first
		if _, err := client.LockState(context.Background(), "orders"); err != nil {
			t.Fatal(err)
		}
	}
	if sent := len(full.named("GET /v1/locks")); sent != 1 {
		t.Error(sent, "calls at the node that refused the first one")
	}
}

func TestAnAnswerEndsTheRestAlthoughALaterCallFails(t *testing.T) {
	client := startNode(t, func(sentCall) (int, string) { return 0, "" }).client(t, Config{Addresses: []string{"127.0.0.1:1"}})
	nodes, read := client.calls.nodes, get("/v1/locks/orders", nil)
	r := nodes.newRounds(&read, budget{time.Second, time.Now().Add(time.Minute), time.Now().Add(time.Minute)}, copied)
	r.receive(sentCopy{node: 0, outcome: outcome{kind: notDone, retryAfter: time.Minute}})
	if !nodes.all[0].rests(time.Now()) {
		t.Error("the node that refused a call does not rest")
	}
	nodes.all[0].answered() // another call
	r.receive(sentCopy{node: 1, outcome: outcome{kind: notDone}})
	r.receive(sentCopy{node: 1, outcome: outcome{kind: notDone, retryAfter: time.Minute}})
	if nodes.all[0].rests(time.Now()) || !nodes.all[1].rests(time.Now()) {
		t.Error("the rests after the answers of the other node")
	}
}

// A counter has the releases and the losses that a client counts.
type counter struct {
	noMetrics
	counted chan string
}

func newCounter() *counter { return &counter{counted: make(chan string, 9)} }

func (c *counter) Released(lock string, _ time.Duration) { c.counted <- lock + " released" }
func (c *counter) Lost(lock string, cause Cause)         { c.counted <- lock + " " + string(cause) }
func (c *counter) Renewed(_ string, isAcknowledged bool) {
	c.counted <- fmt.Sprint("renewed ", isAcknowledged)
}

func TestTheCloseOfAClientCountsNoLossAndNoFailedRenewal(t *testing.T) {
	s, counter := &script{leaseMS: 30_000}, newCounter()
	s.others = func(c sentCall) (int, string) { return s.grant(5, "") }
	renewing := make(chan struct{}, 9)
	client := startNode(t, func(c sentCall) (int, string) {
		switch {
		case !strings.HasSuffix(c.name, "/keepalive"):
		case c.query.Has("wait"):
			return problemOf(http.StatusServiceUnavailable, CodeStarting, true)
		default:
			renewing <- struct{}{}
		}
		return s.answer(c)
	}).client(t, Config{Metrics: counter})
	_, guard, err := client.Lock(context.Background(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	within(t, 20*time.Second, renewing)
	client.Close()
	within(t, 20*time.Second, guard.session.ctx.Done()) // after each report of a loss
	within(t, 20*time.Second, guard.session.checked)    // The renewal signals at its end.
	if len(counter.counted) > 0 {
		t.Error("counted ", <-counter.counted)
	}
}

func TestAReleaseCountsWhenTheClusterHasConfirmedIt(t *testing.T) {
	s, counter, status := &script{leaseMS: 30_000}, newCounter(), dropped
	s.others = func(c sentCall) (int, string) {
		if strings.HasPrefix(c.name, "PUT ") {
			return s.grant(5, "")
		}
		return status, `{"code":"forbidden","title":"no"}`
	}
	node := startNode(t, s.answer)
	client := node.client(t, Config{Metrics: counter, RequestTimeout: 300 * time.Millisecond})
	release := func() error {
		_, guard, err := client.Lock(context.Background(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		return guard.Release()
	}
	expectUnknown(t, release())
	if len(counter.counted) > 0 {
		t.Error("counted ", <-counter.counted)
	}
	node.change(func() { status = http.StatusOK })
	if counted := within(t, 20*time.Second, counter.counted); counted != "orders released" {
		t.Error("counted ", counted)
	}
	node.change(func() { status = http.StatusForbidden })
	if err := release(); rejectedWith(err, CodeForbidden) == nil || len(counter.counted) > 0 {
		t.Error(err)
	}
}

func TestAReleaseThatAnotherServerAnswersGoesOn(t *testing.T) {
	for _, wrongBody := range []string{"200 <html>Welcome</html>", "404 <html>Welcome</html>", "200 null", "200 []"} {
		s, counter := &script{leaseMS: 30_000}, newCounter()
		status, body := http.StatusOK, wrongBody[4:]
		if wrongBody[0] == '4' {
			status = http.StatusNotFound
		}
		s.others = func(c sentCall) (int, string) {
			switch {
			case strings.HasPrefix(c.name, "PUT "):
				return s.grant(5, "")
			case body == "":
				return http.StatusNoContent, ""
			}
			return status, body
		}
		node := startNode(t, s.answer)
		_, guard, err := node.client(t, Config{Metrics: counter, Session: "nightly"}).Lock(context.Background(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		var wrong *UnexpectedResponseError
		if err := guard.Release(); !errors.As(err, &wrong) {
			t.Error(wrongBody, err)
		}
		node.change(func() { body = "" })
		if counted := within(t, 20*time.Second, counter.counted); counted != "orders released" {
			t.Error("counted ", counted)
		}
	}
}

func TestAPlaceIsLeftAgainAfterTheAnswerOfAnotherServer(t *testing.T) {
	s, left, pages := &script{leaseMS: 30_000}, make(chan url.Values, 9), 0
	s.others = func(c sentCall) (int, string) {
		switch {
		case pages > 0:
			pages--
			return http.StatusOK, "<html>Welcome</html>"
		case c.name == "PUT /v1/barriers/start":
			return http.StatusOK, "{}"
		case strings.HasPrefix(c.name, "DELETE "):
			left <- c.query
		case c.name == "POST /v1/txn":
			left <- nil
			return http.StatusOK, `{"results":[]}`
		}
		return http.StatusOK, `{"generation":3,"index":0,"parties":1}`
	}
	node := startNode(t, s.answer)
	client, background := node.client(t, Config{}), context.Background()
	var wrong *UnexpectedResponseError
	expectWrong := func(err error) {
		t.Helper()
		if !errors.As(err, &wrong) {
			t.Error(err)
		}
	}
	_, err := client.Barrier("start", 2).Wait(background, time.Second) // {}
	expectWrong(err)
	for _, isNumbered := range []bool{true, false} {
		if query := within(t, 20*time.Second, left); query.Has("request") != isNumbered {
			t.Error(query)
		}
	}
	node.change(func() { pages = 2 }) // The arrival, and the first of its withdrawals.
	_, err = client.Barrier("start", 2).Wait(background, time.Second)
	expectWrong(err)
	for _, isNumbered := range []bool{true, false} {
		if query := within(t, 20*time.Second, left); query.Has("request") != isNumbered {
			t.Error(query)
		}
	}
	guard, err := client.DoubleBarrier("batch", 1).Enter(background, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	node.change(func() { pages = 1 })
	expectWrong(guard.Leave(background, time.Second))
	if query := within(t, 20*time.Second, left); query.Get("generation") != "3" {
		t.Error(query)
	}
	member, err := client.Group("web").Join(background, "10.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	within(t, 20*time.Second, left)
	node.change(func() { pages = 1 })
	expectWrong(member.Leave(background))
	within(t, 20*time.Second, left)
}

func TestAPageConfirmsNoCloseOfASession(t *testing.T) {
	s := &script{leaseMS: 30_000}
	s.others = func(sentCall) (int, string) { return s.grant(5, "") }
	client := startNode(t, func(c sentCall) (int, string) {
		if strings.HasPrefix(c.name, "DELETE /v1/sessions/") {
			return http.StatusOK, "<html>Welcome</html>"
		}
		return s.answer(c)
	}).client(t, Config{})
	if _, _, err := client.Lock(context.Background(), "orders"); err != nil {
		t.Fatal(err)
	}
	var wrong *UnexpectedResponseError
	if err := client.Close(); !errors.As(err, &wrong) {
		t.Error(err)
	}
}

func TestAPausedReleaseIsRepeatedAtTheCloseOfItsClient(t *testing.T) {
	s, refused, isBack := &script{leaseMS: 30_000}, make(chan struct{}, 9), false
	released := 0
	s.others = func(c sentCall) (int, string) {
		switch {
		case strings.HasPrefix(c.name, "PUT "):
			return s.grant(5, "")
		case isBack:
			released++
			return http.StatusNoContent, ""
		}
		refused <- struct{}{}
		return http.StatusServiceUnavailable, refusal("", 60_000)
	}
	node := startNode(t, s.answer)
	client := node.client(t, Config{Session: "nightly"})
	_, guard, err := client.Lock(context.Background(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Release(); !isUncertain(err) {
		t.Error(err)
	}
	for range []int{1, 2} {
		within(t, 20*time.Second, refused)
	}
	node.change(func() { isBack = true })
	client.Close()
	node.change(func() {
		if released != 1 {
			t.Error("releases after Close:", released)
		}
	})
}

func TestALossThatTheReleaseFindsFirstIsCounted(t *testing.T) {
	s, counter, released := &script{leaseMS: 30_000}, newCounter(), make(chan struct{}, 1)
	s.others = func(c sentCall) (int, string) {
		if strings.HasPrefix(c.name, "PUT ") {
			return s.grant(5, "")
		}
		released <- struct{}{}
		return http.StatusNoContent, ""
	}
	client := startNode(t, s.answer).client(t, Config{Metrics: counter})
	ctx, guard, err := client.Lock(context.Background(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	guard.session.mu.Lock()
	guard.entry.limits.lost = &loss{cause: CauseReleasedElsewhere} // The watcher is not awake yet.
	guard.session.mu.Unlock()
	var lost *LostError
	if err := guard.Release(); !errors.As(err, &lost) || !errors.As(context.Cause(ctx), &lost) {
		t.Error(err, context.Cause(ctx))
	}
	if counted := within(t, 20*time.Second, counter.counted); counted != "orders released-elsewhere" {
		t.Error("counted ", counted)
	}
	within(t, 20*time.Second, released) // The cluster may have a claim of the guard.
}

func TestTheReleaseOfAMultiLockCountsEachLockAsLostOrAsReleased(t *testing.T) {
	s, counter := &script{leaseMS: 30_000}, newCounter()
	s.others = func(c sentCall) (int, string) {
		_, first := s.grant(5, "")
		return http.StatusOK, `{"grants":[` + first + `,` + strings.Replace(first, "orders", "stock", 1) + `]}`
	}
	client := startNode(t, s.answer).client(t, Config{Metrics: counter})
	_, guard, err := client.LockMany(context.Background(), []string{"orders", "stock"})
	if err != nil {
		t.Fatal(err)
	}
	guard.session.loseEntry(guard.entries[0], &loss{cause: CauseForceReleased})
	var lost *LostError
	if err := guard.Release(); !errors.As(err, &lost) {
		t.Error(err)
	}
	for _, wanted := range []string{"orders force-released", "stock released"} {
		if counted := within(t, 20*time.Second, counter.counted); counted != wanted {
			t.Error("counted ", counted)
		}
	}
}

func TestAStreamOpensAtTheFirstNodeThatAcceptsIt(t *testing.T) {
	for bound, isOfCaller := range map[string]bool{"watches of one node": false, "calls_per_second of the subject": true} {
		stream := "id: 4\nevent: vacant\ndata: {\"revision\":4}\n\n"
		isRefused, isStarting := false, true
		full := startNode(t, func(sentCall) (int, string) {
			if isRefused && isOfCaller {
				return 200, stream
			}
			isRefused = true
			return 429, refusal(bound, 3_000)
		})
		other := startNode(t, func(sentCall) (int, string) {
			if isStarting && !isOfCaller {
				isStarting = false
				return problemOf(503, CodeStarting, true)
			}
			return 200, stream
		})
		client := other.client(t, Config{Addresses: []string{full.address}})
		client.calls.nodes.prefer(0)
		ctx, cancel := context.WithCancel(context.Background())
		began := time.Now()
		<-client.Election("db").Observe(ctx)
		cancel()
		if took := time.Since(began); took >= 3*time.Second != isOfCaller {
			t.Error(bound, took)
		}
		if calls := full.named("GET /v1/elections"); len(calls) > 1 && !isOfCaller {
			t.Error(bound, len(calls), "calls")
		}
	}
}

func TestAPauseOfAnAcquireEndsWhenARenewalListsTheGrant(t *testing.T) {
	s := &script{leaseMS: 30_000}
	refused, acquires := make(chan struct{}), 0
	s.others = func(c sentCall) (int, string) {
		if acquires++; acquires > 1 {
			return s.grant(5, "")
		}
		close(refused)
		return 503, refusal("", 20_000)
	}
	client := startNode(t, s.answer).client(t, Config{})
	go func() {
		<-refused
		session, _ := client.session(context.Background(), 0)
		session.mu.Lock()
		defer session.mu.Unlock()
		session.entries[0].notifyGranted()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, guard, err := client.Lock(ctx, "orders", Wait(time.Minute)); err != nil || guard.Token() != 5 {
		t.Error(err)
	}
}

func TestAPauseOfAnUpgradeEndsWithTheHold(t *testing.T) {
	s := &script{leaseMS: 30_000}
	refused := make(chan struct{}, 9)
	s.others = func(c sentCall) (int, string) {
		if c.query.Has("change") {
			refused <- struct{}{}
			return 503, refusal("", 20_000)
		}
		return s.grant(5, "")
	}
	client := startNode(t, s.answer).client(t, Config{})
	for _, isContextOver := range []bool{false, true} {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		_, guard, err := client.Lock(ctx, "orders", InMode(Upgradable))
		if err != nil {
			t.Fatal(err)
		}
		if isContextOver {
			cancel()
		}
		go func() {
			<-refused
			guard.session.loseEntry(guard.entry, &loss{cause: CauseRevoked})
		}()
		began := time.Now()
		var lost *LostError
		if _, err := guard.Upgrade(context.Background(), time.Minute); !errors.As(err, &lost) || time.Since(began) > 10*time.Second {
			t.Error(err, time.Since(began))
		}
	}
}
