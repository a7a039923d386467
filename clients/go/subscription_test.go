package goqueue

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pb "github.com/goqueue/goqueue/clients/go/gen/goqueue/v1"
)

type subscribeStream = grpc.ServerStreamingServer[pb.ConsumeResponse]

func assignment() *pb.ConsumeResponse {
	return &pb.ConsumeResponse{Payload: &pb.ConsumeResponse_Assignment{Assignment: &pb.Assignment{}}}
}

func batch(handles ...string) *pb.ConsumeResponse {
	found := &pb.MessageBatch{}
	for _, handle := range handles {
		found.Messages = append(found.Messages, &pb.Message{ReceiptHandle: handle})
	}
	return &pb.ConsumeResponse{Payload: &pb.ConsumeResponse_Messages{Messages: found}}
}

// failing refuses so many subscriptions in several ways, then serves.
func failing(count int32, serve func(subscribeStream) error) func(subscribeStream) error {
	var tries atomic.Int32
	return func(stream subscribeStream) error {
		number := tries.Add(1)
		if number > count {
			return serve(stream)
		}
		switch number % 3 {
		case 0:
			refused := wireError(pb.ErrorCode_ERROR_CODE_SESSION_EXPIRED)
			_ = stream.Send(&pb.ConsumeResponse{Payload: &pb.ConsumeResponse_Error{Error: refused}})
			return errGone
		case 1:
			_ = stream.Send(assignment())
			return nil
		}
		return errGone
	}
}

func untilCancelled(stream subscribeStream, responses ...*pb.ConsumeResponse) error {
	for _, response := range responses {
		if err := stream.Send(response); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

func TestASubscriptionOutlastsManyFailures(t *testing.T) {
	node := &fakeNode{subscribe: failing(30, func(stream subscribeStream) error {
		return untilCancelled(stream, assignment(), batch("a", "b"))
	})}
	client, ctx := node.serve(t, WithRetries(0))
	ctx, cancel := context.WithCancel(ctx)
	subscription := client.Subscribe(ctx, SubscribeOptions{Group: "g", Topics: []string{"t"}})
	for _, handle := range []string{"a", "b"} {
		if delivery := <-subscription.Messages(); delivery.ReceiptHandle != handle {
			t.Fatalf("%v", delivery)
		}
	}
	cancel()
	if _, isOpen := <-subscription.Messages(); isOpen || subscription.Err() != nil {
		t.Fatalf("%v", subscription.Err())
	}
}

func TestASubscriptionThatIsRefusedForGoodEndsWithTheReason(t *testing.T) {
	node := &fakeNode{subscribe: func(stream subscribeStream) error {
		refused := wireError(pb.ErrorCode_ERROR_CODE_GROUP_MISMATCH)
		return stream.Send(&pb.ConsumeResponse{Payload: &pb.ConsumeResponse_Error{Error: refused}})
	}}
	client, ctx := node.serve(t)
	subscription := client.Subscribe(ctx, SubscribeOptions{Group: "g"})
	if _, isOpen := <-subscription.Messages(); isOpen || !IsCode(subscription.Err(), "group_mismatch") {
		t.Fatalf("%v", subscription.Err())
	}
}

func TestAClosedClientEndsItsSubscriptions(t *testing.T) {
	node := &fakeNode{subscribe: func(stream subscribeStream) error {
		return untilCancelled(stream, assignment(), batch("a"))
	}}
	client, ctx := node.serve(t)
	subscription := client.Subscribe(ctx, SubscribeOptions{Group: "g"})
	<-subscription.Messages()
	client.Close()
	if _, isOpen := <-subscription.Messages(); isOpen || !errors.Is(subscription.Err(), ErrClosed) {
		t.Fatalf("%v", subscription.Err())
	}
}

func TestAConsumerIsPolledInPartsAndForgetsWhatABrokenStreamLeased(t *testing.T) {
	breaks := make(chan struct{})
	var streams atomic.Int32
	node := &fakeNode{subscribe: func(stream subscribeStream) error {
		if streams.Add(1) > 1 {
			return untilCancelled(stream, assignment(), batch("d"))
		}
		_ = stream.Send(assignment())
		_ = stream.Send(batch("a", "b", "c"))
		<-breaks
		return errGone
	}}
	client, ctx := node.serve(t)
	consumer := client.NewConsumer(ctx, SubscribeOptions{Group: "g"})
	poll := func(max int) []string {
		found, err := consumer.Poll(ctx, max)
		if err != nil {
			t.Fatal(err)
		}
		var handles []string
		for _, delivery := range found {
			handles = append(handles, delivery.ReceiptHandle)
		}
		return handles
	}
	if found := poll(2); !slices.Equal(found, []string{"a", "b"}) {
		t.Fatal(found)
	}
	close(breaks)
	<-consumer.rest[0].leased.Done()
	if found := poll(0); !slices.Equal(found, []string{"d"}) {
		t.Fatal(found)
	}
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if _, err := consumer.Poll(short, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	consumer.Close()
	if _, err := consumer.Poll(ctx, 0); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestAnAckThatIsRefusedForAWhileIsTriedAgain(t *testing.T) {
	var asked [][]string
	node := &fakeNode{ack: func(request *pb.BatchAckRequest) *pb.BatchAckResponse {
		asked = append(asked, request.GetReceiptHandles())
		failures := []*pb.AckError{
			{ReceiptHandle: "busy", Error: wireError(pb.ErrorCode_ERROR_CODE_NOT_LEADER)},
			{ReceiptHandle: "old", Error: wireError(pb.ErrorCode_ERROR_CODE_RECEIPT_STALE)},
		}
		if len(asked) > 1 {
			failures = nil
		}
		return &pb.BatchAckResponse{Failures: failures}
	}}
	client, ctx := node.serve(t)
	deliveries := []*Delivery{{ReceiptHandle: "new"}, {ReceiptHandle: "busy"}, {ReceiptHandle: "old"}}
	refused, err := client.AckAll(ctx, deliveries)
	if err != nil || len(refused) != 1 || !IsCode(refused["old"], "receipt_stale") {
		t.Fatalf("%v %v", refused, err)
	}
	if len(asked) != 2 || !slices.Equal(asked[1], []string{"busy"}) {
		t.Fatal(asked)
	}
}

func TestDelaysGrowBeginAgainAndAreAsLongAsTheNodeAsks(t *testing.T) {
	waits := delays{first: delayFirst, longest: delayMax}
	for attempt := range 100 {
		longest := delayMax
		if attempt < 6 {
			longest = delayFirst << attempt
		}
		if found := waits.next(errGone); found > longest || found < longest/2 {
			t.Fatalf("attempt %d waits for %v", attempt, found)
		}
	}
	if found := waits.next(&Error{RetryAfter: time.Hour}); found != time.Hour {
		t.Fatalf("%v", found)
	}
	waits.reset()
	if found := waits.next(errGone); found > delayFirst {
		t.Fatalf("%v", found)
	}
}

func TestTheErrorOfAnItemHasTheStatusOfItsCode(t *testing.T) {
	for number, name := range pb.ErrorCode_name {
		found := itemError(&pb.Error{Code: pb.ErrorCode(number)})
		if number != 0 && found.Status == codes.Unknown {
			t.Errorf("%s has no status", name)
		}
	}
	if found := itemError(&pb.Error{Code: pb.ErrorCode_ERROR_CODE_TOPIC_NOT_FOUND}); found.Status != codes.NotFound {
		t.Fatal(found.Status)
	}
}

func TestThePartitionOfAKeyIsThatOfTheNode(t *testing.T) {
	if hash := murmur3([]byte("user-100")); hash != 0x669441e1 {
		t.Fatalf("%x", hash)
	}
	if PartitionOf([]byte("user-100"), 3) != 0x669441e1%3 {
		t.Fatal("another partition")
	}
}
