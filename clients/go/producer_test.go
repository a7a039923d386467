package goqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/goqueue/goqueue/clients/go/gen/goqueue/v1"
)

func TestAPublishToAnUnreachableNodeFailsWhenItsRetriesAreUsedUp(t *testing.T) {
	for _, retries := range []int{0, 2} {
		client, ctx := hastyClient(t, unreachable(t), WithRetries(retries))
		producer := client.NewProducer(ctx)
		_, err := producer.Publish(ctx, Message{Topic: "t", Value: []byte("x")})
		if status.Code(err) != codes.Unavailable {
			t.Fatalf("with %d retries: %v", retries, err)
		}
		// It returns: nothing is left to wait for.
		if err := producer.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEveryAcceptedMessageIsAnsweredOnceWhenTheContextEnds(t *testing.T) {
	node := &fakeNode{publish: func(
		stream grpc.BidiStreamingServer[pb.PublishStreamRequest, pb.PublishStreamResponse],
	) error {
		<-stream.Context().Done()
		return nil
	}}
	client, ctx := node.serve(t)
	for range 20 {
		producing, stop := context.WithCancel(ctx)
		producer := client.NewProducer(producing, MaxInFlight(64))
		const publishers, each = 8, 50
		answers := make([]atomic.Int32, publishers*each)
		var published atomic.Int32
		var busy sync.WaitGroup
		for publisher := range publishers {
			busy.Add(1)
			go func() {
				defer busy.Done()
				for number := range each {
					index := publisher*each + number
					producer.PublishAsync(ctx, Message{Topic: "t"}, func(_ Placed, err error) {
						if !errors.Is(err, ErrClosed) {
							t.Errorf("%v", err)
						}
						answers[index].Add(1)
					})
					if published.Add(1) == 30 {
						stop()
					}
				}
			}()
		}
		busy.Wait()
		stop()
		producer.Close()
		for index := range answers {
			if count := answers[index].Load(); count != 1 {
				t.Fatalf("message %d was answered %d times", index, count)
			}
		}
	}
}

// publishAll publishes values to two partitions in turn; how each ended.
func publishAll(ctx context.Context, producer *Producer, values []string) []error {
	outcomes := make([]error, len(values))
	for index, value := range values {
		partition := int32(index % 2)
		message := Message{Topic: "t", Value: []byte(value), Partition: &partition}
		producer.PublishAsync(ctx, message, func(_ Placed, err error) { outcomes[index] = err })
	}
	producer.Close()
	return outcomes
}

func numberedValues(count int) []string {
	values := make([]string, count)
	for number := range count {
		values[number] = fmt.Sprint(number)
	}
	return values
}

func TestAnIdempotentProducerStoresEachMessageOnceInOrderWhateverBreaks(t *testing.T) {
	for seed := range uint64(4) {
		log := newNumberedLog(seed)
		node := &fakeNode{publish: log.serve}
		client, ctx := node.serve(t, WithRetries(1000))
		values := numberedValues(400)
		outcomes := publishAll(ctx, client.NewProducer(ctx, Idempotent()), values)
		stored := log.stop()
		expected := map[int32][]string{}
		for index, value := range values {
			if outcomes[index] != nil {
				t.Fatalf("seed %d: %s ended with %v", seed, value, outcomes[index])
			}
			partition := int32(index % 2)
			expected[partition] = append(expected[partition], value)
		}
		for partition := range int32(2) {
			if !slices.Equal(stored[partition], expected[partition]) {
				t.Fatalf("seed %d: partition %d has %v", seed, partition, stored[partition])
			}
		}
		if len(log.counts) != 4 || node.inited != 1 {
			t.Fatalf("seed %d: too little went wrong: %v, %d", seed, log.counts, node.inited)
		}
	}
}

func TestAnIdempotentProducerStoresNothingTwiceWhenMessagesAreGivenUp(t *testing.T) {
	renewed, failed := int64(0), 0
	for seed := range uint64(8) {
		log := newNumberedLog(seed)
		node := &fakeNode{publish: log.serve}
		client, ctx := node.serve(t, WithRetries(int(seed)%4*500))
		values := numberedValues(400)
		for number := 20; number < len(values); number += 7 {
			values[number] = "bad"
		}
		outcomes := publishAll(ctx, client.NewProducer(ctx, Idempotent()), values)
		parts := log.stop()
		stored := map[string]int{}
		for _, part := range parts {
			last := -1
			for _, value := range part {
				stored[value]++
				if number, _ := strconv.Atoi(value); number > last {
					last = number
				} else {
					t.Fatalf("seed %d: out of order: %v", seed, part)
				}
			}
		}
		for index, value := range values {
			isStored := outcomes[index] == nil
			if value == "bad" {
				continue
			}
			if stored[value] > 1 || (isStored && stored[value] != 1) {
				t.Fatalf("seed %d: %s is stored %d times: %v", seed, value, stored[value], outcomes[index])
			}
			if !isStored {
				failed++
			}
		}
		renewed += node.inited - 1
	}
	if renewed == 0 || failed == 0 {
		t.Fatal("no producer gave up a message whose outcome was unknown")
	}
}

func TestAProducerLosesNothingThatItReportsAsStored(t *testing.T) {
	for seed := range uint64(4) {
		log := newNumberedLog(seed)
		node := &fakeNode{publish: log.serve}
		client, ctx := node.serve(t, WithRetries(1000))
		values := numberedValues(400)
		outcomes := publishAll(ctx, client.NewProducer(ctx), values)
		stored := log.stop()
		for index, value := range values {
			if outcomes[index] != nil || !slices.Contains(stored[int32(index%2)], value) {
				t.Fatalf("seed %d: %s ended with %v", seed, value, outcomes[index])
			}
		}
	}
}

func TestAMessageThatIsRefusedForAWhileIsSentAgainAsOftenAsRetriesSay(t *testing.T) {
	var tries atomic.Int32
	node := &fakeNode{publish: func(
		stream grpc.BidiStreamingServer[pb.PublishStreamRequest, pb.PublishStreamResponse],
	) error {
		for {
			request, err := stream.Recv()
			if err != nil {
				return nil
			}
			answer := &pb.PublishStreamResponse{CorrelationId: request.GetCorrelationId()}
			if tries.Add(1) != 8 {
				answer.Error = wireError(pb.ErrorCode_ERROR_CODE_STORAGE_FULL)
			}
			if stream.Send(answer) != nil {
				return nil
			}
		}
	}}
	client, ctx := node.serve(t, WithRetries(3))
	producer := client.NewProducer(ctx)
	defer producer.Close()
	_, err := producer.Publish(ctx, Message{Topic: "t"})
	if !IsCode(err, "storage_full") || status.Code(err) != codes.ResourceExhausted || tries.Load() != 4 {
		t.Fatalf("%v after %d tries", err, tries.Load())
	}
	if _, err := producer.Publish(ctx, Message{Topic: "t"}); err != nil || tries.Load() != 8 {
		t.Fatalf("%v after %d tries", err, tries.Load())
	}
}

func TestAMessageThatWouldEndTheStreamIsRefusedAlone(t *testing.T) {
	client, ctx := hastyClient(t, unreachable(t))
	producer := client.NewProducer(ctx)
	for code, message := range map[string]Message{
		"name_invalid":    {Topic: "\xff"},
		"message_invalid": {Topic: "t", Headers: map[string]string{"a": "\xff"}},
		"body_too_large":  {Topic: "t", Value: make([]byte, messageBytesMax)},
	} {
		if _, err := producer.Publish(ctx, message); !IsCode(err, code) {
			t.Fatalf("%s: %v", code, err)
		}
	}
	idempotent := client.NewProducer(ctx, Idempotent())
	if _, err := idempotent.Publish(ctx, Message{Topic: "t"}); !IsCode(err, "request_invalid") {
		t.Fatalf("without a partition: %v", err)
	}
}

func TestAClosedClientEndsItsProducers(t *testing.T) {
	client, ctx := hastyClient(t, unreachable(t), WithRetries(1000))
	producer := client.NewProducer(ctx)
	client.Close()
	if _, err := producer.Publish(ctx, Message{Topic: "t"}); err == nil || ctx.Err() != nil {
		t.Fatalf("%v", err)
	}
	producer.Close()
}
