package goqueue

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/goqueue/goqueue/clients/go/gen/goqueue/v1"
)

// fakeNode serves what a test needs to go wrong. The functions may be nil.
type fakeNode struct {
	pb.UnimplementedPublishServiceServer
	pb.UnimplementedConsumeServiceServer
	pb.UnimplementedTransactionServiceServer
	pb.UnimplementedAckServiceServer
	publish   func(grpc.BidiStreamingServer[pb.PublishStreamRequest, pb.PublishStreamResponse]) error
	subscribe func(grpc.ServerStreamingServer[pb.ConsumeResponse]) error
	ack       func(*pb.BatchAckRequest) *pb.BatchAckResponse

	lock   sync.Mutex
	inited int64
}

func (n *fakeNode) PublishStream(
	stream grpc.BidiStreamingServer[pb.PublishStreamRequest, pb.PublishStreamResponse],
) error {
	return n.publish(stream)
}

func (n *fakeNode) Subscribe(
	_ *pb.SubscribeRequest, stream grpc.ServerStreamingServer[pb.ConsumeResponse],
) error {
	return n.subscribe(stream)
}

func (n *fakeNode) InitProducer(
	context.Context, *pb.InitProducerRequest,
) (*pb.InitProducerResponse, error) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.inited++
	return &pb.InitProducerResponse{ProducerId: n.inited}, nil
}

func (n *fakeNode) BatchAck(
	_ context.Context, request *pb.BatchAckRequest,
) (*pb.BatchAckResponse, error) {
	return n.ack(request), nil
}

// serve starts the node; a client of it that waits only briefly between attempts.
func (n *fakeNode) serve(t *testing.T, options ...Option) (*Client, context.Context) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterPublishServiceServer(server, n)
	pb.RegisterConsumeServiceServer(server, n)
	pb.RegisterTransactionServiceServer(server, n)
	pb.RegisterAckServiceServer(server, n)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return hastyClient(t, listener.Addr().String(), options...)
}

func hastyClient(t *testing.T, address string, options ...Option) (*Client, context.Context) {
	t.Helper()
	client, err := Connect(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	client.delays = delays{first: time.Millisecond, longest: 4 * time.Millisecond}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(func() { cancel(); client.Close() })
	return client, ctx
}

// unreachable is an address where nothing listens.
func unreachable(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func wireError(code pb.ErrorCode) *pb.Error {
	return &pb.Error{Code: code, Message: "no", RetryAfter: durationpb.New(time.Microsecond)}
}

var errGone = status.Error(codes.Unavailable, "gone")

// numberedLog keeps messages as a node does that knows the sequence numbers of producers, and fails
// by chance at any place.
type numberedLog struct {
	lock   sync.Mutex
	chance *rand.Rand
	values map[int32][]string
	next   map[[2]int64]int64
	// The offsets of the last messages by producer, partition and number.
	recent map[[3]int64]int64
	counts map[string]int

	isStopped bool
}

// stop lets nothing more in, also from streams that were given up; what is stored.
func (l *numberedLog) stop() map[int32][]string {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.isStopped = true
	return l.values
}

func newNumberedLog(seed uint64) *numberedLog {
	return &numberedLog{
		chance: rand.New(rand.NewPCG(seed, seed)),
		values: map[int32][]string{},
		next:   map[[2]int64]int64{},
		recent: map[[3]int64]int64{},
		counts: map[string]int{},
	}
}

func (l *numberedLog) happens(what string, oneIn int) bool {
	if l.chance.IntN(oneIn) > 0 {
		return false
	}
	l.counts[what]++
	return true
}

func (l *numberedLog) serve(
	stream grpc.BidiStreamingServer[pb.PublishStreamRequest, pb.PublishStreamResponse],
) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return nil
		}
		answer, err := l.store(request)
		if err != nil {
			return err
		}
		if err := stream.Send(answer); err != nil {
			return nil
		}
	}
}

func (l *numberedLog) store(
	request *pb.PublishStreamRequest,
) (*pb.PublishStreamResponse, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.isStopped {
		return nil, errGone
	}
	answer := &pb.PublishStreamResponse{CorrelationId: request.GetCorrelationId()}
	switch {
	case l.happens("lost request", 40):
		return nil, errGone
	case l.happens("busy", 20):
		answer.Error = wireError(pb.ErrorCode_ERROR_CODE_TOPIC_BUSY)
		return answer, nil
	case string(request.GetValue()) == "bad":
		answer.Error = wireError(pb.ErrorCode_ERROR_CODE_MESSAGE_INVALID)
		return answer, nil
	}
	partition := request.GetPartition()
	lane := [2]int64{request.GetProducerId(), int64(partition)}
	place := [3]int64{request.GetProducerId(), int64(partition), request.GetSequence()}
	if request.Sequence != nil {
		offset, isStored := l.recent[place]
		if isStored && place[2] > l.next[lane]-1-numberedInFlightMax {
			answer.Offset, answer.Duplicate = offset, true
			return answer, nil
		}
		if place[2] != l.next[lane] {
			answer.Error = wireError(pb.ErrorCode_ERROR_CODE_SEQUENCE_OUT_OF_ORDER)
			return answer, nil
		}
		l.next[lane]++
		l.recent[place] = int64(len(l.values[partition]))
	}
	answer.Offset = int64(len(l.values[partition]))
	l.values[partition] = append(l.values[partition], string(request.GetValue()))
	if l.happens("lost answer", 40) {
		return nil, errGone
	}
	if l.happens("late answer", 40) {
		answer.Error = wireError(pb.ErrorCode_ERROR_CODE_REQUEST_TIMEOUT)
	}
	return answer, nil
}
