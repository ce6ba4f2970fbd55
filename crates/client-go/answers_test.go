package holdfast

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// serve starts a server whose requests stay open until their client ends them, except those that serve answers.
func serve(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		answer(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

func expectUnknown(t *testing.T, err error) {
	t.Helper()
	var unknown *OutcomeUnknownError
	if !errors.As(err, &unknown) {
		t.Error(err)
	}
}

func expectSessionEnded(t *testing.T, err error) {
	t.Helper()
	var lost *LostError
	if !errors.As(err, &lost) || lost.Cause != CauseSessionEnded {
		t.Error(err)
	}
}

// within returns the value of a channel, or fails.
func within[T any](t *testing.T, limit time.Duration, values <-chan T) T {
	t.Helper()
	select {
	case value := <-values:
		return value
	case <-time.After(limit):
		t.Fatal("nothing arrived within ", limit)
		panic("unreachable")
	}
}

func TestTheOutcomeOfANumberedCallIsUnknownIfTheSessionEndedAfterALostAnswer(t *testing.T) {
	s := &script{leaseMS: 30_000}
	calls := 0
	s.others = func(sentCall) (int, string) {
		if calls++; calls == 1 {
			return dropped, ""
		}
		return problemOf(http.StatusGone, CodeSessionExpired, false)
	}
	counter := startNode(t, s.answer).client(t, Config{}).Counter("n")
	_, err := counter.Add(context.Background(), 1)
	expectUnknown(t, err)
	// Without a lost answer, the cluster certainly did not execute the call.
	_, err = counter.Add(context.Background(), 1)
	expectSessionEnded(t, err)
}

func TestSlotsThatMayBeGivenBackAreListedNoMore(t *testing.T) {
	s := &script{leaseMS: 30_000}
	releases := 0
	s.others = func(c sentCall) (int, string) {
		if c.query.Get("permits") != "1" {
			return s.grant(5, `,"permits":2,"slots":[0,1]`)
		}
		if releases++; releases == 1 {
			return problemOf(http.StatusForbidden, CodeForbidden, false)
		}
		return http.StatusOK, "[]" // The answer of another server.
	}
	_, guard, err := startNode(t, s.answer).client(t, Config{}).Semaphore("orders", 2).Acquire(context.Background(), 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, slots := range []int{2, 1} {
		if err := guard.ReleasePermits(context.Background(), 1); err == nil || len(guard.Slots()) != slots || guard.Permits() != slots {
			t.Error(err, guard.Slots(), guard.Permits())
		}
	}
}

func TestACallThatConcernsEveryHoldIsNotRepeated(t *testing.T) {
	posts := 0
	node := startNode(t, func(c sentCall) (int, string) {
		if posts++; posts%2 == 1 {
			return dropped, ""
		}
		return http.StatusOK, `{"ended":1,"asked":1}`
	})
	client, background := node.client(t, Config{}), context.Background()
	for path, call := range map[string]func(token int64) (int, error){
		"POST /v1/force-releases/orders": func(token int64) (int, error) {
			return client.ForceRelease(background, "orders", token, "maintenance")
		},
		"POST /v1/release-requests/orders": func(token int64) (int, error) {
			return client.RequestRelease(background, "orders", token, "maintenance", time.Second, true)
		},
	} {
		node.change(func() { posts = 0 })
		_, err := call(0)
		expectUnknown(t, err)
		if sent := node.named(path); len(sent) != 1 || sent[0].query.Has("token") {
			t.Error(sent)
		}
		node.change(func() { posts = 0 })
		if count, err := call(7); count != 1 || err != nil {
			t.Error(count, err)
		}
		if sent := node.named(path); len(sent) != 3 || sent[2].query.Get("token") != "7" {
			t.Error(sent)
		}
	}
}

func TestAnAnswerFromAnotherServerIsNoGrant(t *testing.T) {
	for _, body := range []string{`{}`, `{"lock":"stock","mode":"exclusive","token":7,"expires_in_ms":30000}`} {
		s := &script{leaseMS: 30_000}
		released := make(chan sentCall, 1)
		s.others = func(c sentCall) (int, string) {
			if c.name == "DELETE /v1/locks/orders" {
				released <- c
				return http.StatusOK, "{}"
			}
			return http.StatusOK, body
		}
		node := startNode(t, s.answer)
		_, guard, err := node.client(t, Config{}).TryLock(context.Background(), "orders")
		var wrong *UnexpectedResponseError
		if !errors.As(err, &wrong) {
			t.Error(guard, err)
		}
		attempt := node.named("PUT /v1/locks/orders")[0].query.Get("attempt")
		if release := within(t, 10*time.Second, released); release.query.Get("attempt") != attempt {
			t.Error(release)
		}
	}
}

func TestATransferWithoutATokenIsReleased(t *testing.T) {
	s := &script{leaseMS: 30_000}
	released := make(chan sentCall, 1)
	s.others = func(c sentCall) (int, string) {
		switch c.name {
		case "PUT /v1/locks/orders":
			return s.grant(7, "")
		case "DELETE /v1/locks/orders":
			released <- c
		}
		return http.StatusOK, "{}"
	}
	_, guard, err := startNode(t, s.answer).client(t, Config{}).TryLock(context.Background(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	var wrong *UnexpectedResponseError
	if token, err := guard.Transfer(context.Background(), "other", ""); !errors.As(err, &wrong) {
		t.Error(token, err)
	}
	within(t, 10*time.Second, released)
}

func TestAnAnswerWithoutEndDoesNotFillTheMemory(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		part := make([]byte, 1<<20)
		for {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	client, err := New(Config{Addresses: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	read := get("/v1/tree/large", nil)
	answer, failure := client.transport.send(context.Background(), address, &read, time.Minute)
	if failure == nil || !failure.mayBeDone || !strings.Contains(failure.reason, "64 MiB") {
		t.Error(answer, failure)
	}
}

// watchBehind watches through two nodes: the first one answers streams by a function, and the second one sends a change.
func watchBehind(t *testing.T, first func(w http.ResponseWriter, r *http.Request)) <-chan Change {
	second := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		if r.URL.Path != pingPath {
			fmt.Fprint(w, "event: changed\nid: 5\ndata: {\"revision\":5,\"kind\":\"changed\",\"path\":\"/a\"}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})
	client, err := New(Config{Addresses: []string{serve(t, first), second}})
	if err != nil {
		t.Fatal(err)
	}
	client.calls.nodes.prefer(0)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return client.WatchSince(ctx, "/", 1).Changes()
}

func TestAStreamGoesOnAtTheNextNodeAfterAnErrorWithoutEnd(t *testing.T) {
	changes := watchBehind(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == pingPath {
			return
		}
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusServiceUnavailable)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	if change := within(t, headTimeout+5*time.Second, changes); change.Revision != 5 {
		t.Error(change)
	}
}

func TestTheEndOfAStreamIsNoChange(t *testing.T) {
	for _, name := range []string{"reconnect", "denied"} {
		changes := watchBehind(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			if r.URL.Path != pingPath {
				fmt.Fprintf(w, "event: %s\ndata: {\"code\":\"unauthenticated\",\"status\":401}\n\n", name)
			}
		})
		if change := within(t, 10*time.Second, changes); change.Revision != 5 {
			t.Error(name, change)
		}
	}
}

func TestAFrozenNodeDelaysAStreamByLessThanTheTimeOfAHead(t *testing.T) {
	changes := watchBehind(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if change := within(t, headTimeout-time.Second, changes); change.Revision != 5 {
		t.Error(change)
	}
}

func TestTheWaitsOfAClientEndWhenItCloses(t *testing.T) {
	s := &script{leaseMS: 30_000}
	waiting := make(chan string, 3)
	s.others = func(c sentCall) (int, string) {
		switch {
		case strings.HasPrefix(c.name, "PUT /v1/double-barriers"):
			return http.StatusOK, `{"generation":3,"index":0,"parties":1}`
		case c.query.Has("wait"):
			waiting <- c.name
			return noAnswer, ""
		}
		return http.StatusOK, "{}"
	}
	for _, config := range []Config{{}, {Session: "nightly"}} {
		client, background := startNode(t, s.answer).client(t, config), context.Background()
		inside, err := client.DoubleBarrier("batch", 1).Enter(background, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		ends := make(chan error, 3)
		go func() {
			_, err := client.Latch("ready").Wait(background, time.Minute)
			ends <- err
		}()
		go func() { ends <- inside.Leave(background, time.Minute) }()
		go func() {
			_, err := client.HoldDurably(background, "freeze", "carol", "moving", time.Minute)
			ends <- err
		}()
		for range make([]int, cap(waiting)) {
			within(t, 10*time.Second, waiting)
		}
		client.Close()
		for range make([]int, cap(ends)) {
			expectSessionEnded(t, within(t, 5*time.Second, ends))
		}
		_, err = client.Latch("ready").Wait(background, time.Minute)
		expectSessionEnded(t, err)
	}
}

func TestAWaitForADurableHoldOutlastsOneCall(t *testing.T) {
	// The nodes are frozen during the first two calls. An attempt ends with its wait, and when the cluster says so.
	type answered struct {
		status int
		body   string
	}
	timeout := answered{http.StatusLocked, `{"code":"wait-timeout","title":"no"}`}
	over := answered{http.StatusConflict, `{"code":"attempt-over","title":"no","newest_attempt":1152921504606846976}`}
	answers := []answered{{}, {}, timeout, over, timeout, {http.StatusOK, `{"token":5}`}}
	var mu sync.Mutex
	var wanted []url.Values
	receive := func(r *http.Request) answered {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path != pingPath {
			wanted = append(wanted, r.URL.Query())
		}
		return answers[max(len(wanted)-1, 0)]
	}
	node := func(w http.ResponseWriter, r *http.Request) {
		answer := receive(r)
		if answer.status == noAnswer {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(answer.status)
		fmt.Fprint(w, answer.body)
	}
	client, err := New(Config{Addresses: []string{serve(t, node), serve(t, node)}, RequestTimeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	token, err := client.HoldDurably(context.Background(), "freeze", "carol", "moving", 20*time.Second)
	mu.Lock()
	defer mu.Unlock()
	if token != 5 || err != nil || len(wanted) != len(answers) {
		t.Fatal(token, err, wanted)
	}
	left := 20_000
	for i, q := range wanted {
		isCopy := i == 1 || i == 2
		wait, _ := strconv.Atoi(strings.TrimSuffix(q.Get("wait"), "ms"))
		if wait > left || q.Get("owner") != "carol" || q.Get("reason") != "moving" {
			t.Error(i, left, q)
		}
		if i > 0 && q.Get("attempt") == wanted[i-1].Get("attempt") != isCopy {
			t.Error(i, wanted)
		}
		left = wait
	}
}

func TestAWatchOfAGroupContinuesAfterThePageOfAProxyThatRestarts(t *testing.T) {
	var mu sync.Mutex
	reads := map[string]int{}
	client, err := New(Config{Addresses: []string{serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/watch" && r.URL.Query().Has("wait") {
			fmt.Fprint(w, `{"revision":3}`)
			return
		}
		if r.URL.Path == "/v1/watch" {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: created\nid: 4\ndata: {\"revision\":4,\"kind\":\"created\",\"path\":\"/groups/web/s1\"}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		mu.Lock()
		defer mu.Unlock()
		reads[r.URL.Path]++
		isPage := reads[r.URL.Path] == 1
		if !isPage {
			w.Header().Set("Holdfast-Node", "1")
			w.Header().Set("Holdfast-Kind", "ephemeral")
		}
		switch {
		case isPage:
			fmt.Fprint(w, "<html>Welcome</html>")
		case r.URL.Path == "/v1/tree/groups/web/s1":
			fmt.Fprint(w, "10.0.0.1")
		case reads[r.URL.Path] == 2:
			fmt.Fprint(w, `{"children":[]}`)
		default:
			fmt.Fprint(w, `{"children":[{"name":"s1","kind":"ephemeral"}]}`)
		}
	})}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	watch, err := client.Group("web").Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []map[string]string{{}, {"s1": "10.0.0.1"}} {
		if members := within(t, 20*time.Second, watch.Changes()); members == nil || !maps.Equal(members, wanted) {
			t.Fatal(members, watch.Err())
		}
	}
}

func TestALeaveWithAnAnswerOfAnotherServerGoesOnInTheBackground(t *testing.T) {
	s := &script{leaseMS: 30_000}
	left := make(chan sentCall, 1)
	s.others = func(c sentCall) (int, string) {
		switch {
		case c.name == "PUT /v1/double-barriers/batch":
			return http.StatusOK, `{"generation":4,"index":0,"parties":1}`
		case c.query.Has("wait"):
			return http.StatusNotFound, "<html>"
		}
		left <- c
		return http.StatusOK, "{}"
	}
	client, background := startNode(t, s.answer).client(t, Config{}), context.Background()
	inside, err := client.DoubleBarrier("batch", 1).Enter(background, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var wrong *UnexpectedResponseError
	if err := inside.Leave(background, time.Minute); !errors.As(err, &wrong) {
		t.Error(err)
	}
	if c := within(t, 5*time.Second, left); c.query.Get("generation") != "4" {
		t.Error(c)
	}
}

func TestAReceiverWithoutAnAnswerReleasesTheHold(t *testing.T) {
	s := &script{leaseMS: 30_000}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	released := make(chan sentCall, 1)
	s.others = func(c sentCall) (int, string) {
		switch c.name {
		case "GET /v1/locks/orders":
			return http.StatusOK, `{"lock":"orders","holders":[{"session":"nightly","token":7}],"revision":1}`
		case "PUT /v1/locks/orders":
			cancel()
			return dropped, ""
		}
		released <- c
		return http.StatusOK, "{}"
	}
	_, _, err := startNode(t, s.answer).client(t, Config{Session: "nightly"}).ReceiveTransfer(ctx, "orders")
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	release := within(t, 10*time.Second, released)
	if release.name != "DELETE /v1/locks/orders" || release.query.Get("token") != "7" {
		t.Error(release)
	}
}

func TestAReceiverThatTheClusterRejectsReleasesNothing(t *testing.T) {
	s := &script{leaseMS: 30_000}
	s.others = func(c sentCall) (int, string) {
		if c.name == "GET /v1/locks/orders" {
			return http.StatusOK, `{"lock":"orders","holders":[{"session":"nightly","token":7}],"revision":1}`
		}
		return problemOf(http.StatusForbidden, "forbidden", false)
	}
	node := startNode(t, s.answer)
	client := node.client(t, Config{Session: "nightly"})
	if _, _, err := client.ReceiveTransfer(context.Background(), "orders"); rejectedWith(err, "forbidden") == nil {
		t.Error(err)
	}
	client.Close() // It waits for releases in progress.
	if released := node.named("DELETE"); len(released) != 0 {
		t.Error(released)
	}
}

func TestAValueDuringAnUpgradeLosesNoGuard(t *testing.T) {
	s := &script{leaseMS: 30_000}
	upgrades, hasValue := 0, false
	upgrading := make(chan struct{}, 1)
	s.others = func(c sentCall) (int, string) {
		switch {
		case c.query.Has("value"):
			// The cluster has executed the upgrade, so the hold has its new token.
			hasValue = true
			return s.grant(8, "")
		case c.query.Get("mode") != string(Exclusive):
			return s.grant(7, "")
		}
		if upgrades++; upgrades == 1 {
			upgrading <- struct{}{}
		}
		if hasValue || upgrades > 7 {
			return s.grant(8, "")
		}
		return problemOf(http.StatusServiceUnavailable, CodeOutcomeUnknown, true)
	}
	client, background := startNode(t, s.answer).client(t, Config{}), context.Background()
	_, guard, err := client.TryLock(background, "orders", InMode(Upgradable))
	if err != nil {
		t.Fatal(err)
	}
	upgraded := make(chan error, 1)
	go func() {
		_, err := guard.Upgrade(background, 20*time.Second)
		upgraded <- err
	}()
	within(t, 10*time.Second, upgrading)
	if err := guard.SetValue(background, "x"); err != nil {
		t.Error(err)
	}
	if err := within(t, 20*time.Second, upgraded); err != nil || guard.Ensure() != nil || guard.Token() != 8 {
		t.Error(err, guard)
	}
}
