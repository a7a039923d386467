// Package goqueue is a client of GoQueue over gRPC.
//
// A Client is one connection to a node. A Producer publishes over one stream and many messages at a
// time, idempotently or in transactions if it is asked to. Subscribe makes the program a member of a
// group and delivers leased messages on a channel; a Consumer does the same and is polled. Consume
// reads partitions by offset. Everything takes a context, and ends with it.
package goqueue

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	pb "github.com/goqueue/goqueue/clients/go/gen/goqueue/v1"
)

const (
	messageBytesMax = 16 << 20
	keepaliveTime   = 30 * time.Second
	retriesDefault  = 10
	connectTime     = 10 * time.Second
)

type settings struct {
	tls     *tls.Config
	key     string
	retries int
	dial    []grpc.DialOption
}

// Option changes how a client connects.
type Option func(*settings)

// WithTLS connects with TLS. A nil configuration trusts the authorities of the system.
func WithTLS(config *tls.Config) Option {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return func(s *settings) { s.tls = config }
}

// WithAPIKey sends a key with every call.
func WithAPIKey(key string) Option { return func(s *settings) { s.key = key } }

// WithRetries says how often a call or a publish that fails with a retriable error is tried again
// (10 unless set, which takes about 20 seconds; 0 never). Subscriptions are tried again until their
// context ends.
func WithRetries(count int) Option { return func(s *settings) { s.retries = count } }

// WithDialOptions hands options to the gRPC library.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// keyCredentials puts the key into the metadata of every call.
type keyCredentials struct {
	key    string
	secure bool
}

func (k keyCredentials) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + k.key}, nil
}

func (k keyCredentials) RequireTransportSecurity() bool { return k.secure }

// Client is a connection to a node. It is safe for concurrent use.
type Client struct {
	conn    *grpc.ClientConn
	retries int
	delays  delays
	closed  chan struct{}
	close   sync.Once

	// The services as they are generated, for what has no method here.
	Publishing   pb.PublishServiceClient
	Consuming    pb.ConsumeServiceClient
	Acks         pb.AckServiceClient
	Offsets      pb.OffsetServiceClient
	Transactions pb.TransactionServiceClient
	Health       pb.HealthServiceClient
}

// Connect returns a client of the node at an address such as "127.0.0.1:9000". It does not wait for
// the node; the first call does.
func Connect(address string, options ...Option) (*Client, error) {
	chosen := settings{retries: retriesDefault}
	for _, option := range options {
		option(&chosen)
	}
	transport := insecure.NewCredentials()
	if chosen.tls != nil {
		transport = credentials.NewTLS(chosen.tls)
	}
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytesMax)),
		// The library would wait for up to two minutes before it connects to a node that is back.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: delayFirst, Multiplier: 2, Jitter: 0.2, MaxDelay: delayMax,
			},
			MinConnectTimeout: connectTime,
		}),
	}
	if chosen.key != "" {
		perCall := keyCredentials{key: chosen.key, secure: chosen.tls != nil}
		dial = append(dial, grpc.WithPerRPCCredentials(perCall))
	}
	conn, err := grpc.NewClient(address, append(dial, chosen.dial...)...)
	if err != nil {
		return nil, err
	}
	return &Client{
		conn:         conn,
		retries:      chosen.retries,
		delays:       delays{first: delayFirst, longest: delayMax},
		closed:       make(chan struct{}),
		Publishing:   pb.NewPublishServiceClient(conn),
		Consuming:    pb.NewConsumeServiceClient(conn),
		Acks:         pb.NewAckServiceClient(conn),
		Offsets:      pb.NewOffsetServiceClient(conn),
		Transactions: pb.NewTransactionServiceClient(conn),
		Health:       pb.NewHealthServiceClient(conn),
	}, nil
}

// Close ends the connection and everything on it: subscriptions end, and publishes fail.
func (c *Client) Close() error {
	c.close.Do(func() { close(c.closed) })
	return c.conn.Close()
}

func (c *Client) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// retry runs a call again while it fails with an error that can be retried.
func (c *Client) retry(ctx context.Context, canRetry func(error) bool, call func() error) error {
	delays := c.delays
	for attempt := 0; ; attempt++ {
		err := call()
		if err == nil || attempt >= c.retries || !canRetry(err) || c.isClosed() {
			return err
		}
		if sleep(ctx, delays.next(err)) != nil {
			return err
		}
	}
}
