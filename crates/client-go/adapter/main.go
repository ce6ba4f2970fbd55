// Adapter is the program that plays the shared client scenarios with the Go client: JSON lines on stdin and stdout.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	holdfast "github.com/holdfast/holdfast/crates/client-go"
)

// A request is one line of stdin. It has the fields of all requests.
type request struct {
	ID int64  `json:"id"`
	Do string `json:"do"`

	Client, Name, Lock, Guard, Election, Observer, Watcher, Path, Prefix, Key, To, Group, Member string
	Locks, Addresses                                                                             []string

	TTLMS            int64             `json:"ttl_ms"`
	Session          string            `json:"session"`
	SessionPrefix    string            `json:"session_prefix"`
	Labels           map[string]string `json:"labels"`
	RequestTimeoutMS int64             `json:"request_timeout_ms"`
	CA               string            `json:"ca"`
	Certificate      string            `json:"certificate"`
	AccessToken      string            `json:"access_token"`
	AccessTokenFile  string            `json:"access_token_file"`

	WaitMS            *int64 `json:"wait_ms"`
	Mode              string
	Permits           int
	Limit             int
	Priority          int
	Owner             string
	Reentrant         *bool
	QueueMax          int   `json:"queue_max"`
	MaxHoldMS         int64 `json:"max_hold_ms"`
	MinHoldMS         int64 `json:"min_hold_ms"`
	Value             string
	ProgressTimeoutMS int64 `json:"progress_timeout_ms"`
	Shards            int
	Shard             *int

	Request    int64
	Reason     string
	DeadlineMS int64 `json:"deadline_ms"`
	Revoke     bool
	Token      int64
	Count      int
	Parties    int
	Add        int64
	Version    *int64
	MS         int64
}

type fields map[string]any

var errUnsupported = errors.New("unsupported")

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// wait returns the wait of a request, which is otherwise without bound.
func (r *request) wait() time.Duration {
	if r.WaitMS == nil {
		return 1000 * time.Hour
	}
	return ms(*r.WaitMS)
}

// An adapter keeps what the requests name.
type adapter struct {
	out sync.Mutex

	mu      sync.Mutex
	clients map[string]*holdfast.Client
	guards  map[string]held
	inside  map[string]*holdfast.BarrierGuard
	members map[string]*holdfast.Membership
	stops   map[string]context.CancelFunc // of observers and watchers
	pending map[int64]context.CancelFunc
}

// A held is a guard of one lock or of several.
type held interface {
	Ensure() error
	Remaining() time.Duration
	ReportProgress() error
	Release() error
}

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	a := &adapter{
		clients: map[string]*holdfast.Client{}, guards: map[string]held{}, inside: map[string]*holdfast.BarrierGuard{},
		members: map[string]*holdfast.Membership{}, stops: map[string]context.CancelFunc{}, pending: map[int64]context.CancelFunc{},
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r, err := parse(lines.Bytes())
		if err != nil {
			a.print(fields{"id": r.ID, "error": errorFields(err)})
			continue
		}
		if r.Do == "block" {
			a.block(r)
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		a.mu.Lock()
		a.pending[r.ID] = cancel
		a.mu.Unlock()
		go a.answer(ctx, r)
	}
	a.closeAll()
}

// parse rejects unknown options, and returns the id of their request.
func parse(line []byte) (request, error) {
	var r request
	strict := json.NewDecoder(bytes.NewReader(line))
	strict.DisallowUnknownFields()
	err := strict.Decode(&r)
	if err != nil {
		var named struct{ ID int64 }
		json.Unmarshal(line, &named)
		r.ID = named.ID
	}
	return r, err
}

// block keeps the main goroutine busy, which reads no request meanwhile.
func (a *adapter) block(r request) {
	for until := time.Now().Add(ms(r.MS)); time.Now().Before(until); {
	}
	a.print(fields{"id": r.ID, "ok": fields{}})
}

func (a *adapter) answer(ctx context.Context, r request) {
	ok, err := a.do(ctx, &r)
	a.mu.Lock()
	delete(a.pending, r.ID)
	a.mu.Unlock()
	if err != nil {
		a.print(fields{"id": r.ID, "error": errorFields(err)})
		return
	}
	if ok == nil {
		ok = fields{}
	}
	a.print(fields{"id": r.ID, "ok": ok})
	if r.Do == "shutdown" {
		os.Exit(0)
	}
}

func (a *adapter) print(line fields) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	a.out.Lock()
	defer a.out.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

func errorFields(err error) fields {
	f := fields{"kind": kindOf(err), "message": err.Error(), "retryable": holdfast.IsRetryable(err)}
	if problem := holdfast.ProblemOf(err); problem != nil {
		f["code"], f["retryable"] = problem.Code, problem.Retryable
	}
	var lost *holdfast.LostError
	if errors.As(err, &lost) {
		f["cause"] = lost.Cause
	}
	return f
}

func kindOf(err error) string {
	var busy *holdfast.BusyError
	var lost *holdfast.LostError
	var unavailable *holdfast.UnavailableError
	var unknown *holdfast.OutcomeUnknownError
	var rejected *holdfast.RejectedError
	var unexpected *holdfast.UnexpectedResponseError
	switch {
	case errors.As(err, &lost), errors.Is(err, holdfast.ErrReleased):
		return "lost"
	case errors.As(err, &busy):
		return "busy"
	case errors.As(err, &unavailable):
		return "unavailable"
	case errors.As(err, &unknown):
		return "outcome-unknown"
	case errors.As(err, &rejected):
		return "rejected"
	case errors.As(err, &unexpected):
		return "unexpected-response"
	case errors.Is(err, errUnsupported):
		return "unsupported"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "cancelled"
	}
	return "invalid-argument"
}

func (a *adapter) closeAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, stop := range a.stops {
		stop()
	}
	for _, client := range a.clients {
		client.Close()
	}
}

func (a *adapter) client(name string) (*holdfast.Client, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if client := a.clients[name]; client != nil {
		return client, nil
	}
	return nil, fmt.Errorf("there is no client %q", name)
}

func (a *adapter) held(name string) (held, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if guard := a.guards[name]; guard != nil {
		return guard, nil
	}
	return nil, fmt.Errorf("there is no guard %q", name)
}

func (a *adapter) guard(name string) (*holdfast.Guard, error) {
	h, err := a.held(name)
	if err != nil {
		return nil, err
	}
	if guard, isOne := h.(*holdfast.Guard); isOne {
		return guard, nil
	}
	return nil, fmt.Errorf("%q is a guard of several locks", name)
}
