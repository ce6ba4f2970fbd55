package holdfast

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// falseBodies are answers with status 200 of another server.
var falseBodies = []string{
	`{}`, `[]`, `null`, `{"token":5,"lo`, `{"lock":1,"token":"5","value":"1","left":"no"}`, "<html>Welcome</html>", "",
}

// goodAnswer is the answer of a cluster in which nothing special happens.
func goodAnswer(request string) string {
	grant := func(lock string) string {
		return fmt.Sprintf(`{"lock":%q,"mode":"upgradable","token":5,"expires_in_ms":30000,"permits":2,"slots":[0,1]}`, lock)
	}
	switch {
	case strings.Contains(request, "/v1/sessions/"):
		return `{"session":"nightly","incarnation":7,"expires_in_ms":30000,"holds":[]}`
	case strings.HasPrefix(request, "GET /v1/locks"):
		return `{"lock":"t","holders":[{"session":"nightly","token":9}],"holders_total":1,"revision":1}`
	case strings.HasPrefix(request, "POST /v1/locks"):
		return `{"grants":[` + grant("b") + `,` + grant("c") + `]}`
	case strings.Contains(request, "barriers"):
		return `{"index":0,"parties":1,"generation":4}`
	case strings.Contains(request, "/txn"):
		return `{"results":[{"stat":{"kind":"ephemeral"}}]}`
	}
	if lock := regexp.MustCompile(`locks/([^?]*)`).FindStringSubmatch(request); lock != nil {
		return grant(lock[1])
	}
	return grant("a")
}

// startFalseNode starts a node whose first answer to a request that fits a pattern has the body. sent reports what it received.
func startFalseNode(t *testing.T, pattern, body string) (client *Client, sent func(prefix string) bool) {
	var mu sync.Mutex
	var requests []string
	isFalse, fits := true, regexp.MustCompile(pattern)
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		request := r.Method + " " + r.URL.String()
		if strings.Contains(request, "/keepalive") {
			<-r.Context().Done()
			return
		}
		mu.Lock()
		defer mu.Unlock()
		requests = append(requests, request)
		switch {
		case isFalse && fits.MatchString(request):
			isFalse = false
			fmt.Fprint(w, body)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		default:
			fmt.Fprint(w, goodAnswer(request))
		}
	})
	client, err := New(Config{Addresses: []string{address}, Session: "nightly"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client, func(prefix string) bool {
		mu.Lock()
		defer mu.Unlock()
		for _, request := range requests {
			if strings.HasPrefix(request, prefix) {
				return true
			}
		}
		return false
	}
}

func TestAFalseAnswerFailsItsCall(t *testing.T) {
	background := context.Background()
	second := func(_ any, err error) error { return err }
	campaign := func(c *Client) (*Election, error) {
		election := c.Election("e")
		return election, second(election.Campaign(background, "x"))
	}
	for name, made := range map[string]struct {
		pattern string
		call    func(*Client, *Guard) error
		// isReleased: what the call may have left is released.
		isReleased bool
	}{
		"open a session": {"^PUT .*sessions", func(*Client, *Guard) error { return nil }, false},
		"acquire": {"^PUT .*locks/b", func(c *Client, _ *Guard) error {
			_, _, err := c.TryLock(background, "b")
			return err
		}, true},
		"acquire several": {"^POST .*locks", func(c *Client, _ *Guard) error {
			_, _, err := c.LockMany(background, []string{"b", "c"}, Wait(0))
			return err
		}, true},
		"release": {"^DELETE .*locks/a", func(_ *Client, g *Guard) error { return g.Release() }, true},
		"release several": {"^DELETE .*locks[?]", func(c *Client, _ *Guard) error {
			_, guard, err := c.LockMany(background, []string{"b", "c"})
			return errors.Join(err, guard.Release())
		}, true},
		"release permits": {"permits=1", func(_ *Client, g *Guard) error { return g.ReleasePermits(background, 1) }, false},
		"upgrade":         {"mode=exclusive", func(_ *Client, g *Guard) error { return second(g.Upgrade(background, 0)) }, false},
		"proclaim": {"value=y", func(c *Client, _ *Guard) error {
			election, err := campaign(c)
			return errors.Join(err, election.Proclaim(background, "y"))
		}, false},
		"transfer": {"transfers", func(_ *Client, g *Guard) error { return second(g.Transfer(background, "other", "")) }, true},
		"receive": {"change=0", func(c *Client, _ *Guard) error {
			_, _, err := c.ReceiveTransfer(background, "t", Wait(0))
			return err
		}, true},
		"hold durably": {"^PUT .*hold=durable", func(c *Client, _ *Guard) error {
			return second(c.HoldDurably(background, "d", "o", "r", 0))
		}, false},
		"release a durable hold": {"^DELETE .*hold=durable", func(c *Client, _ *Guard) error {
			return c.ReleaseDurable(background, "d", "o", 5)
		}, false},
		"force-release": {"force-releases", func(c *Client, _ *Guard) error {
			return second(c.ForceRelease(background, "a", 5, "r"))
		}, false},
		"request a release": {"release-requests", func(c *Client, _ *Guard) error {
			return second(c.RequestRelease(background, "a", 5, "r", time.Second, false))
		}, false},
		"read a lock":      {"^GET .*locks", func(c *Client, _ *Guard) error { return second(c.LockState(background, "a")) }, false},
		"read an election": {"elections", func(c *Client, _ *Guard) error { return second(c.Election("e").Leader(background)) }, false},
		"arrive at a barrier": {"^PUT .*barriers", func(c *Client, _ *Guard) error {
			return second(c.Barrier("b", 1).Wait(background, 0))
		}, false},
		"leave a barrier": {"^DELETE .*barriers", func(c *Client, _ *Guard) error {
			place, err := c.DoubleBarrier("b", 1).Enter(background, 0)
			return errors.Join(err, place.Leave(background, 0))
		}, false},
		"create a latch":   {"^PUT .*latches", func(c *Client, _ *Guard) error { return second(c.Latch("l").Create(background, 1)) }, false},
		"count down":       {"^POST .*latches", func(c *Client, _ *Guard) error { return second(c.Latch("l").CountDown(background, "k")) }, false},
		"wait for a latch": {"^GET .*latches", func(c *Client, _ *Guard) error { return second(c.Latch("l").Wait(background, 0)) }, false},
		"delete a latch":   {"^DELETE .*latches", func(c *Client, _ *Guard) error { return c.Latch("l").Delete(background) }, false},
		"read a counter":   {"^GET .*counters", func(c *Client, _ *Guard) error { return second(c.Counter("c").Get(background)) }, false},
		"add":              {"^POST .*counters", func(c *Client, _ *Guard) error { return second(c.Counter("c").Add(background, 1)) }, false},
		"set":              {"^PUT .*counters", func(c *Client, _ *Guard) error { return second(c.Counter("c").Set(background, 1)) }, false},
		"read a znode":     {"^GET .*tree", func(c *Client, _ *Guard) error { return second(c.Get(background, "/z")) }, false},
		"write a znode": {"^PUT .*tree", func(c *Client, _ *Guard) error {
			return second(c.Put(background, "/z", nil, AnyVersion))
		}, false},
		"delete a znode": {"^DELETE .*tree", func(c *Client, _ *Guard) error { return c.Delete(background, "/z", AnyVersion) }, false},
		"watch":          {"watch", func(c *Client, _ *Guard) error { return second(c.Watch(background, "/z")) }, false},
		"join":           {"txn", func(c *Client, _ *Guard) error { return second(c.Group("g").Join(background, "x")) }, false},
		"members":        {"tree", func(c *Client, _ *Guard) error { return second(c.Group("g").Members(background)) }, false},
	} {
		for _, body := range falseBodies {
			client, sent := startFalseNode(t, made.pattern, body)
			_, guard, err := client.TryLock(background, "a", InMode(Upgradable))
			if err == nil {
				err = made.call(client, guard)
			}
			var wrong *UnexpectedResponseError
			if !errors.As(err, &wrong) {
				t.Errorf("%s, %q: %v", name, body, err)
			}
			for until := time.Now().Add(20 * time.Second); made.isReleased && !sent("DELETE /v1/locks"); {
				if time.Now().After(until) {
					t.Fatalf("%s, %q: no release", name, body)
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
}

func TestAFalseAnswerClosesNoSession(t *testing.T) {
	for _, body := range falseBodies {
		address := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch request := r.Method + " " + r.URL.String(); {
			case r.Method == http.MethodDelete:
				fmt.Fprint(w, body)
			case strings.Contains(request, "/keepalive"):
				<-r.Context().Done()
			default:
				fmt.Fprint(w, goodAnswer(request))
			}
		})
		client, err := New(Config{Addresses: []string{address}})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = client.TryLock(context.Background(), "a")
		var wrong *UnexpectedResponseError
		if closed := client.Close(); err != nil || !errors.As(closed, &wrong) {
			t.Errorf("%q: %v, %v", body, err, closed)
		}
	}
}

type renewals struct {
	noMetrics
	mu                  sync.Mutex
	renewed, notRenewed int
}

func (r *renewals) Renewed(_ string, isRenewed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if isRenewed {
		r.renewed++
	} else {
		r.notRenewed++
	}
}

func TestAFalseAnswerRenewsNothing(t *testing.T) {
	for _, body := range falseBodies {
		address := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch request := r.Method + " " + r.URL.String(); {
			case r.Method == http.MethodDelete:
				w.WriteHeader(http.StatusNoContent)
			case strings.Contains(request, "/keepalive"):
				fmt.Fprint(w, body)
			default:
				fmt.Fprint(w, strings.Replace(goodAnswer(request), ":30000", ":1000", 1))
			}
		})
		counted := &renewals{}
		client, err := New(Config{Addresses: []string{address}, Metrics: counted})
		if err != nil {
			t.Fatal(err)
		}
		_, guard, err := client.TryLock(context.Background(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if lost := within(t, 20*time.Second, guard.Lost()); lost.Cause != CauseNotRenewed {
			t.Errorf("%q: %v", body, lost)
		}
		counted.mu.Lock()
		if counted.renewed > 0 || counted.notRenewed == 0 {
			t.Errorf("%q: %d, %d", body, counted.renewed, counted.notRenewed)
		}
		counted.mu.Unlock()
		client.Close()
	}
}

// pages are answers that show by themselves that they are from another server.
var pages = map[string]int{`{}`: 200, `[]`: 200, "<html>Welcome</html>": 200, "": 200, "<html>Not found</html>": 404}

func TestACallThatAnotherServerAnswersContinuesAtTheNextAddress(t *testing.T) {
	for body, status := range pages {
		var answered atomic.Int32
		foreign := serve(t, func(w http.ResponseWriter, r *http.Request) {
			answered.Add(1)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
		client, _ := startFalseNode(t, "none", "")
		client, err := New(Config{Addresses: []string{foreign, client.config.Addresses[0]}, Session: "nightly"})
		if err != nil {
			t.Fatal(err)
		}
		// The address of the other server is the first of the next call.
		first := func() {
			client.calls.nodes.all[0].answered()
			client.calls.nodes.prefer(0)
		}
		background := context.Background()
		first()
		_, guard, err := client.TryLock(background, "a")
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		first()
		if _, err := client.LockState(background, "a"); err != nil {
			t.Errorf("%q: %v", body, err)
		}
		first()
		if err := guard.Release(); err != nil {
			t.Errorf("%q: %v", body, err)
		}
		if answered.Load() < 3 {
			t.Errorf("%q: %d", body, answered.Load())
		}
		client.Close()
	}
}

func TestAStreamContinuesAtTheAddressOfANode(t *testing.T) {
	node := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: 7\nevent: change\ndata: {\"path\":\"/a\",\"kind\":\"created\",\"revision\":7}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	for body, status := range pages {
		page := func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
		one, other := serve(t, page), serve(t, page)
		client, err := New(Config{Addresses: []string{one, node}})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		client.calls.nodes.prefer(0)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		change := <-client.WatchSince(ctx, "/a", 1).Changes()
		if change.Revision != 7 || client.calls.nodes.order()[0] != 1 {
			t.Errorf("%q: %v %v", body, change, client.calls.nodes.order())
		}

		client, err = New(Config{Addresses: []string{one, other}})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		watch := client.WatchSince(ctx, "/a", 1)
		_, isOpen := <-watch.Changes()
		var wrong *UnexpectedResponseError
		isNamed := errors.As(watch.Err(), &wrong) && strings.Contains(wrong.Reason, one) && strings.Contains(wrong.Reason, other)
		if isOpen || !isNamed {
			t.Errorf("%q: %v", body, watch.Err())
		}
	}
}

func TestARejectionWithoutAProblemDocumentEndsTheCall(t *testing.T) {
	node := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Holdfast-Node", "1")
		w.WriteHeader(http.StatusNotFound)
	})
	other := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, goodAnswer(r.Method+" "+r.URL.String())) })
	client, err := New(Config{Addresses: []string{node, other}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.calls.nodes.prefer(0)
	_, err = client.LockState(context.Background(), "a")
	var wrong *UnexpectedResponseError
	if !errors.As(err, &wrong) || !strings.Contains(wrong.Reason, "404") || client.calls.nodes.order()[0] != 0 {
		t.Error(err, client.calls.nodes.order())
	}
}

func TestTheErrorNamesEachAddressOfAnotherServer(t *testing.T) {
	page := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>") }
	one, other := serve(t, page), serve(t, page)
	client, err := New(Config{Addresses: []string{one, other}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.LockState(context.Background(), "a")
	var wrong *UnexpectedResponseError
	if !errors.As(err, &wrong) || !strings.Contains(wrong.Reason, one+" answered 200 without the fields of a node") || !strings.Contains(wrong.Reason, other) {
		t.Error(err)
	}
}
