package holdfast

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	userAgent      = "holdfast-go/0.1"
	connectTimeout = time.Second
	// bodyMax is the maximum size of an answer. A larger one is not from a node, and would fill the memory.
	bodyMax = 64 << 20
)

// A transport sends one request to one node. It follows no redirect and uses no proxy, because both would hide which
// node answered.
type transport struct {
	http  *http.Client
	token *accessToken // nil without one
}

// A sendError is the error of a request without an answer.
type sendError struct {
	reason string
	// mayBeDone is false if the node certainly did not receive the request.
	mayBeDone bool
}

func newTransport(config Config) (*transport, error) {
	tlsConfig, err := tlsConfigOf(config)
	if err != nil {
		return nil, err
	}
	token, err := newAccessToken(config)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}
	client := &http.Client{
		Transport: &http.Transport{
			DialContext:         dialer.DialContext,
			TLSClientConfig:     tlsConfig,
			TLSHandshakeTimeout: 3 * time.Second,
			MaxIdleConns:        256,
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     60 * time.Second, // a node closes an idle connection after 75 s
			DisableCompression:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &transport{http: client, token: token}, nil
}

func tlsConfigOf(config Config) (*tls.Config, error) {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if config.CA != "" {
		pem, err := os.ReadFile(config.CA)
		if err != nil {
			return nil, invalid("cannot read the CA: %v", err)
		}
		tlsConfig.RootCAs = x509.NewCertPool()
		if !tlsConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, invalid("%s has no certificate in PEM form", config.CA)
		}
	}
	if (config.Certificate == "") != (config.Key == "") {
		return nil, invalid("a client certificate needs both Certificate and Key")
	}
	if config.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(config.Certificate, config.Key)
		if err != nil {
			return nil, invalid("cannot load the client certificate: %v", err)
		}
		tlsConfig.Certificates = []tls.Certificate{pair}
	}
	return tlsConfig, nil
}

// baseURL returns the URL of a node's address, which is host:port with or without a scheme.
func baseURL(address string, isTLS bool) (string, error) {
	base := strings.TrimRight(strings.TrimSpace(address), "/")
	if !strings.Contains(base, "://") {
		base = map[bool]string{false: "http://", true: "https://"}[isTLS] + base
	}
	parsed, err := url.Parse(base)
	isAddress := err == nil && parsed.Hostname() != "" && parsed.User == nil && parsed.Path == "" && parsed.RawQuery == "" &&
		(parsed.Scheme == "http" || parsed.Scheme == "https")
	if isAddress {
		port, err := strconv.ParseUint(parsed.Port(), 10, 16)
		isAddress = err == nil && port > 0
	}
	if !isAddress {
		// What is before '@' may be a password.
		shown := address[strings.LastIndex(address, "@")+1:]
		return "", invalid("%q is not a node address: write host:port, http://host:port or https://host:port, without a user name", shown)
	}
	return base, nil
}

// open sends a request and returns once the head of the answer has arrived. The caller closes the body.
func (t *transport) open(ctx context.Context, base string, c *call) (*http.Response, *sendError) {
	var wasWritten atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { wasWritten.Store(true) }})
	request, err := http.NewRequestWithContext(ctx, c.method, base+c.target(), bytes.NewReader(c.body))
	if err != nil {
		return nil, &sendError{reason: err.Error()}
	}
	request.Header.Set("User-Agent", userAgent)
	if t.token != nil {
		if value := t.token.header(); value != "" {
			request.Header.Set("Authorization", value)
		}
	}
	for name, value := range c.header {
		request.Header.Set(name, value)
	}
	answer, err := t.http.Do(request)
	if err != nil {
		return nil, &sendError{reason: reasonOf(err), mayBeDone: wasWritten.Load()}
	}
	return answer, nil
}

// send sends a request once, and reads the whole answer within the timeout.
func (t *transport) send(ctx context.Context, base string, c *call, timeout time.Duration) (*response, *sendError) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, failure := t.open(ctx, base, c)
	if failure != nil {
		return nil, failure
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, bodyMax+1))
	if err != nil {
		return nil, &sendError{reason: reasonOf(err), mayBeDone: true}
	}
	if len(body) > bodyMax {
		return nil, &sendError{reason: "the answer has more than 64 MiB", mayBeDone: true}
	}
	return &response{answer.StatusCode, answer.Header, body}, nil
}

// reasonOf returns the cause of a failed request without its URL, which has parameters.
func reasonOf(err error) string {
	var urlError *url.Error
	if errors.As(err, &urlError) {
		err = urlError.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return fmt.Sprintf("the node's certificate is from an unknown CA: set CA to the CA of the cluster (%v)", err)
	}
	return err.Error()
}
