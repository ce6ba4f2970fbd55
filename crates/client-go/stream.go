package holdfast

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// silenceMax: a stream without bytes for this long is dead, because nodes write a comment every 15 s.
	silenceMax = 45 * time.Second
	// headTimeout is the maximum time until a node sends the head of a stream, or a whole error.
	headTimeout = 6 * time.Second
	// eventMax is the maximum size of a line of a stream.
	eventMax = 64 << 10
)

// A serverEvent is one server-sent event.
type serverEvent struct {
	name, data string
	id         int64 // 0 without one
}

// An eventStream reads the events of a path. When a node ends the stream, the next node gets the id of the last event, so
// no event is delivered twice.
type eventStream struct {
	calls sender
	call  call
	last  int64 // the id of the last event
	node  int   // the node of the last stream; -1 before
	// notBefore has when each node may get the call again.
	notBefore []time.Time
}

// run passes each event to handle until the context ends, or the cluster rejects the stream, or handle returns an error.
func (s *eventStream) run(ctx context.Context, handle func(serverEvent) error) error {
	short := 0
	for ctx.Err() == nil {
		opened := time.Now()
		hadEvent := false
		err := s.readOne(ctx, func(event serverEvent) error {
			hadEvent = true
			return handle(event)
		})
		var end *streamEnd
		if !errors.As(err, &end) {
			return err
		}
		short++
		if hadEvent || time.Since(opened) > s.calls.timeout {
			short = 0
		}
		select {
		case <-time.After(max(retryPause(short), time.Until(s.retryAt()))):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// retryAt returns when the first node may get the call again.
func (s *eventStream) retryAt() time.Time {
	return slices.MinFunc(s.notBefore, time.Time.Compare)
}

// A streamEnd is the end of one stream, after which another node continues it.
type streamEnd struct{ reason string }

func (e *streamEnd) Error() string { return e.reason }

// readOne reads one stream to its end.
func (s *eventStream) readOne(ctx context.Context, handle func(serverEvent) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	stop := s.calls.nodes.watchSilence(ctx, s.node, math.MaxInt, cancel)
	defer stop()
	silence := time.AfterFunc(silenceMax, cancel)
	defer silence.Stop()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, eventMax)
	var event serverEvent
	for lines.Scan() {
		silence.Reset(silenceMax)
		if line := lines.Text(); line != "" {
			event.add(line)
			continue
		}
		if event.id != 0 {
			s.last = event.id
		}
		if event.name == "reconnect" || event.name == "denied" { // the next call returns the rejection
			return &streamEnd{reason: "the node closes the stream"}
		}
		if event.name != "" {
			if err := handle(event); err != nil {
				return err
			}
		}
		event = serverEvent{}
	}
	return &streamEnd{reason: fmt.Sprint("the stream ended: ", lines.Err())}
}

// open opens the stream at the first node that accepts it. The node of the previous stream comes last.
func (s *eventStream) open(ctx context.Context) (io.ReadCloser, error) {
	n := s.calls.nodes
	order := n.order()
	if s.node >= 0 {
		rest := make([]int, 0, len(order))
		for _, index := range order {
			if index != s.node {
				rest = append(rest, index)
			}
		}
		order = append(rest, s.node)
	}
	if s.notBefore == nil {
		s.notBefore = make([]time.Time, len(n.all))
	}
	end := &streamEnd{reason: "no node was tried"}
	var pages []string // the reasons of the addresses where another server answered
	for _, index := range order {
		if time.Now().Before(s.notBefore[index]) {
			continue
		}
		body, result := s.openAt(ctx, index)
		switch {
		case body != nil:
			s.node = index
			return body, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case result.kind == rejected:
			return nil, result.err
		case result.kind == foreign:
			pages = append(pages, result.reason)
		case result.err != nil:
			end.reason = result.err.Error()
		default:
			end.reason = result.reason
		}
		refuse(s.notBefore, index, result)
	}
	// After a node has served this stream, a page may be that of a proxy that restarts.
	if s.node < 0 && len(pages) == len(n.all) {
		return nil, &UnexpectedResponseError{strings.Join(pages, "; ")}
	}
	return nil, end
}

func (s *eventStream) openAt(ctx context.Context, index int) (io.ReadCloser, outcome) {
	n := s.calls.nodes
	request := s.call
	request.header = map[string]string{"Accept": "text/event-stream"}
	if s.last > 0 {
		request.header["Last-Event-Id"] = strconv.FormatInt(s.last, 10)
	}
	streamCtx, cancel := context.WithCancel(ctx)
	// A node without a head rests, and the next node gets the request.
	timer := time.AfterFunc(headTimeout, func() {
		n.all[index].rest()
		cancel()
	})
	defer timer.Stop()
	stop := n.watchSilence(streamCtx, index, math.MaxInt, cancel)
	defer stop()
	answer, failure := n.transport.open(streamCtx, n.all[index].base, &request)
	if failure == nil && answer.StatusCode == http.StatusOK && timer.Stop() {
		body := &cancelingBody{answer.Body, cancel}
		// The answer is judged without its body, which is the stream.
		result := n.judge(index, &request, &response{answer.StatusCode, answer.Header, nil})
		if result.kind == foreign {
			body.Close()
			return nil, result
		}
		return body, outcome{}
	}
	defer cancel()
	if failure != nil {
		if streamCtx.Err() == nil {
			n.all[index].rest()
		}
		return nil, failedOutcome(n.all[index].base, failure)
	}
	defer answer.Body.Close()
	problem, err := io.ReadAll(io.LimitReader(answer.Body, eventMax))
	if err != nil {
		return nil, failedOutcome(n.all[index].base, &sendError{reason: reasonOf(err)})
	}
	return nil, n.judge(index, &request, &response{answer.StatusCode, answer.Header, problem})
}

// A cancelingBody ends the request when it is closed.
type cancelingBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *cancelingBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// add parses one line of an event. A comment has no key.
func (e *serverEvent) add(line string) {
	key, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch key {
	case "event":
		e.name = value
	case "data":
		e.data = value
	case "id":
		e.id, _ = strconv.ParseInt(value, 10, 64)
	}
}
