package goqueue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/goqueue/goqueue/clients/go/gen/goqueue/v1"
)

// connect returns a client of the node that GOQUEUE_GRPC names, and the topic of this test.
func connect(t *testing.T) (*Client, string, context.Context) {
	t.Helper()
	address := os.Getenv("GOQUEUE_GRPC")
	if address == "" {
		t.Skip("GOQUEUE_GRPC names no node")
	}
	client, err := Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(func() { cancel(); client.Close() })
	return client, os.Getenv("GOQUEUE_TOPIC"), ctx
}

func TestAProducerKeepsTheOrderOfItsMessages(t *testing.T) {
	client, topic, ctx := connect(t)
	producer := client.NewProducer(ctx)
	partition := int32(0)
	var placed []int64
	for number := range 500 {
		message := Message{Topic: topic, Value: fmt.Append(nil, number), Partition: &partition}
		producer.PublishAsync(ctx, message, func(found Placed, err error) {
			if err != nil {
				t.Error(err)
			}
			placed = append(placed, found.Offset)
		})
	}
	if err := producer.Close(); err != nil {
		t.Fatal(err)
	}
	if len(placed) != 500 {
		t.Fatalf("%d answers", len(placed))
	}
	for index, offset := range placed {
		if offset != placed[0]+int64(index) {
			t.Fatalf("offset %d at %d", offset, index)
		}
	}
	if _, err := producer.Publish(ctx, Message{Topic: topic}); !errors.Is(err, ErrClosed) {
		t.Fatalf("a closed producer answered %v", err)
	}
}

func TestASubscriptionEndsWithItsContextAndFreesWhatItHolds(t *testing.T) {
	client, topic, ctx := connect(t)
	group := fmt.Sprintf("go-%d", time.Now().UnixNano())
	if _, err := client.Publish(ctx, Message{Topic: topic, Value: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	first, cancel := context.WithCancel(ctx)
	subscription := client.Subscribe(first, SubscribeOptions{Group: group, Topics: []string{topic}})
	delivery := <-subscription.Messages()
	cancel()
	for range subscription.Messages() {
	}
	if err := subscription.Err(); err != nil {
		t.Fatal(err)
	}
	again := client.Subscribe(ctx, SubscribeOptions{Group: group, Topics: []string{topic}})
	redelivered := <-again.Messages()
	if redelivered.RetryCount == 0 && redelivered.Offset == delivery.Offset {
		t.Fatal("the second delivery is not counted")
	}
}

func TestARefusalHasItsCode(t *testing.T) {
	client, _, ctx := connect(t)
	_, err := client.Publish(ctx, Message{Topic: "never-created", Value: []byte("x")})
	if !IsCode(err, "topic_not_found") || status.Code(err) != codes.NotFound || IsRetriable(err) {
		t.Fatalf("%v", err)
	}
}

func TestAnErrorInTheTrailerIsRead(t *testing.T) {
	encoded, err := proto.Marshal(&pb.Error{
		Code: pb.ErrorCode_ERROR_CODE_RATE_LIMITED, Message: "slow down",
	})
	if err != nil {
		t.Fatal(err)
	}
	trailer := metadata.Pairs(errorTrailer, string(encoded))
	failed := callError(status.Error(codes.ResourceExhausted, "x"), trailer)
	if !IsCode(failed, "rate_limited") || !IsRetriable(failed) {
		t.Fatalf("%v", failed)
	}
}
