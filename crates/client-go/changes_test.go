package holdfast

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// changing answers each change in turn, and grants everything else.
func changing(s *script, mode Mode, answers ...func() (int, string)) {
	s.others = func(c sentCall) (int, string) {
		if !c.query.Has("change") {
			return s.grant(5, fmt.Sprintf(`,"mode":%q`, mode))
		}
		answer := answers[0]
		answers = answers[1:]
		return answer()
	}
}

func page() (int, string)      { return http.StatusOK, "<html>Welcome</html>" }
func forbidden() (int, string) { return problemOf(http.StatusForbidden, CodeForbidden, false) }

func TestARejectedFallbackOfAnUpgradeEndsNoHold(t *testing.T) {
	s := &script{leaseMS: 30_000}
	changing(s, Upgradable, page, forbidden, func() (int, string) { return s.grant(6, "") })
	_, guard, err := startNode(t, s.answer).client(t, Config{}).Lock(context.Background(), "orders", InMode(Upgradable))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Upgrade(context.Background(), 0); rejectedWith(err, CodeForbidden) == nil {
		t.Error(err)
	}
	if guard.Ensure() != nil || guard.Mode() != Upgradable {
		t.Error(guard)
	}
	if token, err := guard.Upgrade(context.Background(), 0); err != nil || token != 6 {
		t.Error(token, err)
	}
}

func TestARejectedDowngradeEndsNoHold(t *testing.T) {
	for mode, answers := range map[Mode][]func() (int, string){Exclusive: {forbidden}, Shared: {page, forbidden}} {
		s := &script{leaseMS: 30_000}
		changing(s, Exclusive, append(answers, func() (int, string) { return s.grant(5, `,"mode":"shared"`) })...)
		node := startNode(t, s.answer)
		_, guard, err := node.client(t, Config{}).Lock(context.Background(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		if err := guard.Downgrade(context.Background(), Shared); rejectedWith(err, CodeForbidden) == nil {
			t.Error(err)
		}
		if guard.Ensure() != nil || guard.Mode() != mode {
			t.Error(guard, guard.Mode())
		}
		// The cluster may still have the stronger mode.
		if err := guard.Downgrade(context.Background(), Shared); err != nil || guard.Mode() != Shared {
			t.Error(err, guard.Mode())
		}
		if calls := node.named("PUT /v1/locks/orders"); len(calls) != len(answers)+2 {
			t.Error(mode, calls)
		}
	}
}

func TestAHoldCanBeChangedAfterTheEndOfTheContextOfItsLock(t *testing.T) {
	s, background := &script{leaseMS: 30_000}, context.Background()
	s.others = func(c sentCall) (int, string) {
		lock, isLock := strings.CutPrefix(c.name, "PUT /v1/locks/")
		if !isLock {
			return http.StatusOK, `{"token":9}`
		}
		return s.grant(7, fmt.Sprintf(`,"lock":%q,"mode":%q`, lock, c.query.Get("mode")))
	}
	client := startNode(t, s.answer).client(t, Config{})
	for name, change := range map[string]func(*Guard) error{
		"upgrade": func(g *Guard) error {
			_, err := g.Upgrade(background, 0)
			return err
		},
		"downgrade": func(g *Guard) error { return g.Downgrade(background, Shared) },
		"value":     func(g *Guard) error { return g.SetValue(background, "x") },
		"proclaim": func(g *Guard) error {
			return (&Election{client: client, name: "e", guard: g}).Proclaim(background, "x")
		},
		"transfer": func(g *Guard) error {
			_, err := g.Transfer(background, "other", "")
			return err
		},
	} {
		for range make([]int, 20) {
			ctx, cancel := context.WithCancel(background)
			_, guard, err := client.Lock(ctx, "orders", InMode(Upgradable))
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := errors.Join(guard.Ensure(), change(guard)); err != nil {
				t.Fatal(name, err)
			}
		}
	}
}

func TestTheCloseOfTheClientEndsThePauseOfAFallback(t *testing.T) {
	s, refused := &script{leaseMS: 30_000}, make(chan struct{})
	upgrading := make(chan struct{})
	changing(s, Upgradable, func() (int, string) {
		close(upgrading)
		return noAnswer, ""
	}, func() (int, string) {
		close(refused)
		return http.StatusServiceUnavailable, refusal("", 50_000)
	}, func() (int, string) { return s.grant(5, `,"mode":"upgradable"`) })
	node := startNode(t, s.answer)
	client := node.client(t, Config{Session: "nightly"})
	_, guard, err := client.Lock(context.Background(), "orders", InMode(Upgradable))
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	upgraded := make(chan error, 1)
	go func() {
		_, err := guard.Upgrade(cancelled, time.Minute)
		upgraded <- err
	}()
	within(t, 20*time.Second, upgrading)
	cancel()
	within(t, 20*time.Second, refused) // The fallback pauses in the background.
	began := time.Now()
	client.Close()
	if time.Since(began) > 5*time.Second || len(node.named("PUT /v1/locks")) != 4 {
		t.Error(time.Since(began), node.named("PUT /v1/locks"))
	}
	if err := within(t, time.Second, upgraded); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAReleaseInFlightAtCloseThatAnotherServerAnswersIsRepeatedAtOnce(t *testing.T) {
	inFlight, last, releases := make(chan struct{}), make(chan struct{}), 0
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/keepalive") {
			<-r.Context().Done()
			return
		}
		status, body := http.StatusNoContent, ""
		switch {
		case r.Method == http.MethodDelete && releases < 5:
			if releases++; releases == 5 {
				close(inFlight)
				<-last
			}
			status, body = page()
		case r.Method != http.MethodDelete:
			status, body = http.StatusOK, goodAnswer(r.Method+" "+r.URL.String())
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	client, err := New(Config{Addresses: []string{address}, Session: "nightly"})
	if err != nil {
		t.Fatal(err)
	}
	_, guard, err := client.Lock(context.Background(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Release(); !isUnclear(err) {
		t.Error(err)
	}
	within(t, 20*time.Second, inFlight)
	began := time.Now()
	time.AfterFunc(200*time.Millisecond, func() { close(last) })
	client.Close()
	if time.Since(began) > 2*time.Second {
		t.Error(time.Since(began))
	}
}

func TestAMultiLockThatTheClusterNoLongerHasIsLost(t *testing.T) {
	s := &script{leaseMS: 30_000}
	s.others = func(c sentCall) (int, string) {
		if strings.HasPrefix(c.name, "DELETE ") {
			return http.StatusConflict, `{"code":"not-holder","title":"no","lock":"stock"}`
		}
		_, first := s.grant(5, "")
		return http.StatusOK, `{"grants":[` + first + `,` + strings.Replace(first, "orders", "stock", 1) + `]}`
	}
	client := startNode(t, s.answer).client(t, Config{})
	_, guard, err := client.LockMany(context.Background(), []string{"orders", "stock"})
	if err != nil {
		t.Fatal(err)
	}
	var lost *LostError
	if err := guard.Release(); !errors.As(err, &lost) || lost.Cause != CauseReleasedElsewhere || lost.Lock != "stock" {
		t.Error(err)
	}
}

func TestTheOtherGuardsOfAHoldGetTheNewToken(t *testing.T) {
	for _, way := range []string{"upgrade", "acquire", "renewal"} {
		s := &script{leaseMS: 30_000}
		s.others = func(c sentCall) (int, string) {
			switch {
			case c.query.Get("owner") == "p":
				return s.grant(4, `,"ticket":2`)
			case c.query.Get("mode") == "exclusive" || !c.query.Has("mode"):
				return s.grant(6, `,"ticket":1`)
			}
			return s.grant(5, `,"ticket":1`)
		}
		node := startNode(t, s.answer)
		client, background := node.client(t, Config{}), context.Background()
		lock := func(owner string, mode Mode) *Guard {
			_, guard, err := client.Lock(background, "orders", InMode(mode), Owner(owner))
			if err != nil {
				t.Fatal(err)
			}
			return guard
		}
		first, second, other := lock("o", Upgradable), lock("o", Shared), lock("p", Shared)
		switch way {
		case "upgrade":
			if _, err := first.Upgrade(background, 0); err != nil {
				t.Error(err)
			}
		case "acquire":
			lock("o", Exclusive)
		case "renewal":
			listed := []holdBody{{Lock: "orders", Ticket: 1, Token: 6}, {Lock: "orders", Ticket: 2, Token: 4}}
			events := &sessionEvents{session: first.session}
			events.reconcile(first.session.held(), listed, 30*time.Second)
		}
		for _, guard := range []*Guard{first, second} {
			if guard.Ensure() != nil || guard.Token() != 6 {
				t.Error(way, guard)
			}
		}
		if other.Token() != 4 || len(node.named("GET")) > 0 {
			t.Error(way, other, node.named("GET"))
		}
	}
}

// twoGuards acquires one hold with two guards: ticket 5, token 7. Each change is answered by a function.
func twoGuards(t *testing.T, s *script, others func(sentCall) (int, string)) (*Guard, *Guard) {
	s.leaseMS = 30_000
	s.others = func(c sentCall) (int, string) {
		if c.query.Has("change") || strings.HasPrefix(c.name, "GET ") {
			return others(c)
		}
		return s.grant(7, `,"mode":"upgradable","ticket":5`)
	}
	client := startNode(t, s.answer).client(t, Config{Session: "nightly"})
	var guards [2]*Guard
	for i := range guards {
		_, guard, err := client.Lock(context.Background(), "orders", InMode(Upgradable), Owner("o"))
		if err != nil {
			t.Fatal(err)
		}
		guards[i] = guard
	}
	return guards[0], guards[1]
}

func TestAnUpgradeThatARenewalListsIsRequestedAgainAlthoughAnotherGuardHasItsToken(t *testing.T) {
	s, upgrading := &script{}, make(chan struct{}, 1)
	isBehind := true
	outer, inner := twoGuards(t, s, func(sentCall) (int, string) {
		if isBehind {
			isBehind = false
			upgrading <- struct{}{}
			return noAnswer, ""
		}
		return s.grant(9, `,"ticket":5`)
	})
	upgraded := make(chan int64, 1)
	go func() {
		token, err := inner.Upgrade(context.Background(), time.Minute)
		if err != nil {
			t.Error(err)
		}
		upgraded <- token
	}()
	within(t, 20*time.Second, upgrading)
	events := &sessionEvents{session: outer.session}
	listed := []holdBody{{Lock: "orders", Ticket: 5, Token: 9}}
	events.reconcile(outer.session.held(), listed, 30*time.Second)
	if len(events.unguarded) != 1 || outer.Token() != 9 || inner.Token() != 7 {
		t.Fatal(events.unguarded, outer, inner)
	}
	events.unguarded[0].examineAt = now()
	events.reconcile(outer.session.held(), listed, 30*time.Second)
	if token := within(t, 20*time.Second, upgraded); token != 9 || inner.Mode() != Exclusive {
		t.Error(token, inner.Mode())
	}
	events.reconcile(outer.session.held(), listed, 30*time.Second)
	if len(events.unguarded) > 0 {
		t.Error(events.unguarded)
	}
}

func TestAnUpgradeAwaitsOnlyTheNewTokenOfItsHold(t *testing.T) {
	upgrade := newEntry("orders", "o", 1)
	upgrade.stage, upgrade.grant.Ticket, upgrade.grant.Token = stageConverting, 5, 7
	other := newEntry("orders", "o", 2)
	other.stage = stageHeld
	s := &session{entries: []*entry{other, upgrade}}
	for _, test := range []struct {
		entry, listed int64
		token         int64
		isAwaited     bool
	}{{5, 5, 9, true}, {5, 6, 9, false}, {5, 0, 9, false}, {0, 0, 9, false}, {5, 5, 7, false}} {
		upgrade.grant.Ticket, other.grant.Token = test.entry, test.token
		isKnown, awaiting := s.match(holdBody{Lock: "orders", Ticket: test.listed, Token: test.token})
		if isKnown == test.isAwaited || test.isAwaited && len(awaiting) != 1 {
			t.Error(test, isKnown, awaiting)
		}
	}
}

func TestTheGuardsOfAnUpgradedHoldGetItsReleaseRequest(t *testing.T) {
	granted := eventBody{Kind: "granted", Lock: "orders", Token: 9}
	request := func(token int64) eventBody {
		return eventBody{Kind: "release-requested", Lock: "orders", Token: token, WantedInMS: 60_000, Revoke: true}
	}
	for name, body := range map[string]eventsBody{
		"after":  {Events: []eventBody{granted, request(9)}},
		"before": {Events: []eventBody{request(7), granted}},
		"gap":    {Gap: &struct{}{}},
	} {
		first, second := twoGuards(t, &script{}, func(sentCall) (int, string) {
			return http.StatusOK, `{"lock":"orders","holders_total":1,"revision":1,"holders":[{"session":"nightly","token":9,` +
				`"release_request":{"wanted_in_ms":60000,"revoke":true}}]}`
		})
		body.ExpiresInMS, body.Holds = 30_000, []holdBody{{Lock: "orders", Ticket: 5, Token: 9}}
		events := &sessionEvents{session: first.session}
		events.deliver(first.session.held(), &body, now())
		for _, guard := range []*Guard{first, second} {
			if requested := within(t, 20*time.Second, guard.ReleaseRequested()); !requested.Revoke || guard.Token() != 9 {
				t.Error(name, requested, guard)
			}
		}
	}
}

func TestAnEventNamesItsHoldByTheTicket(t *testing.T) {
	free := func(sentCall) (int, string) {
		return http.StatusOK, `{"lock":"orders","holders_total":0,"revision":1,"holders":[]}`
	}
	first, second := twoGuards(t, &script{}, free)
	body := eventsBody{Events: []eventBody{
		{Kind: "granted", Lock: "orders", Ticket: 5, Token: 9},
		{Kind: "lost", Lock: "orders", Ticket: 5, Token: 9, Cause: "force-released", Reason: "stuck"},
	}}
	body.ExpiresInMS = 30_000
	(&sessionEvents{session: first.session}).deliver(first.session.held(), &body, now())
	for _, guard := range []*Guard{first, second} {
		var lost *LostError
		if err := guard.Ensure(); !errors.As(err, &lost) || lost.Cause != CauseForceReleased {
			t.Error(err, guard)
		}
	}

	first, second = twoGuards(t, &script{}, free)
	// Its upgrade has no answer yet.
	second.entry.stage = stageConverting
	body.Events = []eventBody{{Kind: "release-requested", Lock: "orders", Ticket: 5, Token: 9, WantedInMS: 60_000, Revoke: true}}
	// The list is of another upgrade, after the one of the event.
	body.Holds = []holdBody{{Lock: "orders", Ticket: 5, Token: 11}}
	body.Events = append(body.Events, eventBody{Kind: "lost", Lock: "orders", Ticket: 6, Token: 11})
	(&sessionEvents{session: first.session}).deliver(first.session.held(), &body, now())
	for _, guard := range []*Guard{first, second} {
		select {
		case <-guard.ReleaseRequested():
		default:
			t.Error("no release request", guard)
		}
		if err := guard.Ensure(); err != nil {
			t.Error(err)
		}
	}
}

func TestAnEventDuringAReadIsOfALaterRequest(t *testing.T) {
	var first *Guard
	first, _ = twoGuards(t, &script{}, func(sentCall) (int, string) {
		event := eventBody{Kind: "release-requested", Lock: "orders", Token: 7, Reason: "second", WantedInMS: 60_000}
		first.session.deliverEvent(nil, &event, now())
		return http.StatusOK, `{"lock":"orders","holders_total":1,"revision":1,"holders":[{"session":"nightly","token":7,` +
			`"release_request":{"reason":"first","wanted_in_ms":90000}}]}`
	})
	first.session.readReleaseRequest(first.session.held()[0], 20*time.Second)
	if requested := within(t, time.Second, first.ReleaseRequested()); requested.Reason != "second" {
		t.Error(requested)
	}
}

// silentReads is a node that leaves reads of locks without an answer, and counts them. Its keepalives list the holds of ten
// guards, and later other holds and more fields.
type silentReads struct {
	leaseMS     int
	isHeld      atomic.Bool // all guards exist
	holds, more string
	all         atomic.Int32
	inFlight    atomic.Int32
}

func (s *silentReads) serve(w http.ResponseWriter, r *http.Request) {
	lock, isLock := strings.CutPrefix(r.URL.Path, "/v1/locks/")
	holds, more := heldTokens("l", 1), ""
	if s.isHeld.Load() {
		holds, more = s.holds, s.more
	}
	switch {
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet:
		s.all.Add(1)
		s.inFlight.Add(1)
		<-r.Context().Done()
		s.inFlight.Add(-1)
	case isLock:
		fmt.Fprintf(w, `{"lock":%q,"mode":"exclusive","token":%s,"expires_in_ms":%d}`, lock, lock[1:], s.leaseMS)
	default:
		fmt.Fprintf(w, `{"session":"s","incarnation":1,"expires_in_ms":%d,"revision":1,"holds":[%s]%s}`, s.leaseMS, holds, more)
	}
}

// heldTokens lists ten holds.
func heldTokens(name string, from int) string {
	var holds []string
	for token := from; token < from+10; token++ {
		holds = append(holds, fmt.Sprintf(`{"lock":"%s%d","token":%d}`, name, token, token))
	}
	return strings.Join(holds, ",")
}

func (s *silentReads) start(t *testing.T) (*Client, []*Guard) {
	client, err := New(Config{Addresses: []string{serve(t, s.serve)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	var guards []*Guard
	for token := 1; token <= 10; token++ {
		_, guard, err := client.Lock(context.Background(), fmt.Sprint("l", token))
		if err != nil {
			t.Fatal(err)
		}
		guards = append(guards, guard)
	}
	s.isHeld.Store(true)
	return client, guards
}

func TestReadsWithoutAnAnswerDelayNoRenewal(t *testing.T) {
	for way, s := range map[string]*silentReads{
		"a gap":                 {holds: heldTokens("l", 1), more: `,"gap":{}`},
		"unlisted holds":        {},
		"holds without a guard": {holds: heldTokens("l", 1) + "," + heldTokens("s", 21)},
	} {
		s := s
		s.leaseMS = 3_000
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			_, guards := s.start(t)
			select {
			case lost := <-guards[0].Lost():
				t.Fatal(lost)
			case <-time.After(4500 * time.Millisecond): // longer than the lease, and than all reads one after the other
			}
			for _, guard := range guards {
				if guard.Remaining() < time.Second {
					t.Error(guard)
				}
			}
			if s.all.Load() < 10 {
				t.Error(s.all.Load(), "reads")
			}
		})
	}
}

func TestNoReadOutlivesTheSession(t *testing.T) {
	s := &silentReads{leaseMS: 30_000, more: `,"gap":{}`}
	client, _ := s.start(t)
	for until := time.Now().Add(20 * time.Second); s.inFlight.Load() < readersMax; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal(s.all.Load(), "reads")
		}
	}
	client.Close()
	for until := time.Now().Add(20 * time.Second); s.inFlight.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("reads go on")
		}
	}
	if all := s.all.Load(); all != readersMax {
		t.Error(all, "reads")
	}
}
