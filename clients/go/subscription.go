package goqueue

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/goqueue/goqueue/clients/go/gen/goqueue/v1"
)

// Received is a message as it was stored.
type Received struct {
	Topic      string
	Partition  int32
	Offset     int64
	Timestamp  time.Time
	Key        []byte
	Value      []byte
	Headers    map[string]string
	Priority   Priority
	TraceID    string
	RetryCount int32
}

// IsTombstone says whether the value is null, rather than empty.
func (r *Received) IsTombstone() bool { return r.Value == nil }

// Delivery is a message that is leased to this program until Deadline.
type Delivery struct {
	Received
	ReceiptHandle string
	Deadline      time.Time
	client        *Client
	// Ends with the stream that leased it: then the message is free again.
	leased context.Context
}

// Ack settles the message: the group does not get it again. It may be repeated.
func (d *Delivery) Ack(ctx context.Context) error {
	request := &pb.AckRequest{ReceiptHandle: d.ReceiptHandle}
	return d.client.retry(ctx, IsRetriable, func() error {
		var trailer metadata.MD
		_, err := d.client.Acks.Ack(ctx, request, grpc.Trailer(&trailer))
		return callError(err, trailer)
	})
}

// Nack returns the message for redelivery: after its backoff, or after a delay if one is given. It
// is not repeated after an unknown outcome.
func (d *Delivery) Nack(ctx context.Context, reason string, delay ...time.Duration) error {
	request := &pb.NackRequest{ReceiptHandle: d.ReceiptHandle, Reason: reason}
	if len(delay) > 0 {
		request.VisibilityTimeout = durationpb.New(delay[0])
	}
	return d.client.retry(ctx, isUndone, func() error {
		var trailer metadata.MD
		_, err := d.client.Acks.Nack(ctx, request, grpc.Trailer(&trailer))
		return callError(err, trailer)
	})
}

// Reject moves the message to the dead-letter topic, whose name it returns. It is not repeated after
// an unknown outcome.
func (d *Delivery) Reject(ctx context.Context, reason string) (string, error) {
	request := &pb.RejectRequest{ReceiptHandle: d.ReceiptHandle, Reason: reason}
	var answer *pb.RejectResponse
	err := d.client.retry(ctx, isUndone, func() error {
		var trailer metadata.MD
		var err error
		answer, err = d.client.Acks.Reject(ctx, request, grpc.Trailer(&trailer))
		return callError(err, trailer)
	})
	return answer.GetDlqTopic(), err
}

// Extend sets the end of the lease to this long from now.
func (d *Delivery) Extend(ctx context.Context, timeout time.Duration) error {
	request := &pb.ExtendVisibilityRequest{
		ReceiptHandle: d.ReceiptHandle, VisibilityTimeout: durationpb.New(timeout),
	}
	return d.client.retry(ctx, IsRetriable, func() error {
		var trailer metadata.MD
		_, err := d.client.Acks.ExtendVisibility(ctx, request, grpc.Trailer(&trailer))
		return callError(err, trailer)
	})
}

// AckAll settles many messages in one call; the errors of those that were refused, by handle. Those
// that were refused for a while are tried again.
func (c *Client) AckAll(ctx context.Context, deliveries []*Delivery) (map[string]error, error) {
	var handles []string
	for _, delivery := range deliveries {
		handles = append(handles, delivery.ReceiptHandle)
	}
	refused := map[string]error{}
	var failed error
	// An error that is returned inside is that of an item that is busy, or of the call.
	_ = c.retry(ctx, IsRetriable, func() error {
		var trailer metadata.MD
		request := &pb.BatchAckRequest{ReceiptHandles: handles}
		answer, err := c.Acks.BatchAck(ctx, request, grpc.Trailer(&trailer))
		failed = callError(err, trailer)
		if failed != nil {
			return failed
		}
		for _, handle := range handles {
			delete(refused, handle)
		}
		handles = nil
		var busy error
		for _, failure := range answer.GetFailures() {
			handle, found := failure.GetReceiptHandle(), itemError(failure.GetError())
			refused[handle] = found
			if IsRetriable(found) {
				handles, busy = append(handles, handle), found
			}
		}
		return busy
	})
	return refused, failed
}

// Mode is how the members of a group share partitions.
type Mode int32

// Modes of groups.
const (
	Partitioned Mode = Mode(pb.GroupMode_GROUP_MODE_PARTITIONED)
	Shared      Mode = Mode(pb.GroupMode_GROUP_MODE_SHARED)
	KeyOrdered  Mode = Mode(pb.GroupMode_GROUP_MODE_KEY_ORDERED)
)

// SubscribeOptions say what to subscribe to.
type SubscribeOptions struct {
	Group  string
	Topics []string
	// ConsumerID is shown to operators.
	ConsumerID string
	// FromLatest starts at new messages where the group has no position yet.
	FromLatest bool
	// MaxMessages bounds what is unsettled at a time: 100 if 0.
	MaxMessages    int
	SessionTimeout time.Duration
	Mode           Mode
	// OnAssignment is called with the partitions of this member when they change.
	OnAssignment func(partitions []*pb.TopicPartition)
}

// Subscription is a membership in a group.
type Subscription struct {
	deliveries chan *Delivery
	err        error
}

// Messages are the deliveries. The channel is closed when the subscription has ended.
func (s *Subscription) Messages() <-chan *Delivery { return s.deliveries }

// Err is why the subscription ended, once Messages is closed; nil if its context ended, ErrClosed if
// the client was closed.
func (s *Subscription) Err() error { return s.err }

// Subscribe joins a group until the context ends, which leaves it and frees what is leased. A stream
// that breaks is opened again until then, and what was leased over it is delivered again.
func (c *Client) Subscribe(ctx context.Context, options SubscribeOptions) *Subscription {
	// What is leased waits on the stream, not here: the next member should get it.
	subscription := &Subscription{deliveries: make(chan *Delivery)}
	go func() {
		defer close(subscription.deliveries)
		deliver := func(ctx context.Context, batch []*Delivery) {
			for _, delivery := range batch {
				select {
				case subscription.deliveries <- delivery:
				case <-ctx.Done():
					return
				}
			}
		}
		subscription.err = c.keepSubscribed(ctx, options, deliver)
	}()
	return subscription
}

// isLeft says whether a member lost its place in the group: it has to join again.
func isLeft(err error) bool {
	return IsCode(err, "session_expired") || IsCode(err, "member_not_found") ||
		IsCode(err, "generation_stale")
}

// keepSubscribed delivers batches until the context ends, or something fails for good.
func (c *Client) keepSubscribed(
	ctx context.Context, options SubscribeOptions, deliver func(context.Context, []*Delivery),
) error {
	delays := c.delays
	for {
		err := c.subscribeOnce(ctx, options, deliver, delays.reset)
		switch {
		case ctx.Err() != nil:
			return nil
		case c.isClosed():
			return ErrClosed
		case !IsRetriable(err) && !isLeft(err):
			return err
		}
		if sleep(ctx, delays.next(err)) != nil {
			return nil
		}
	}
}

// subscribeOnce serves one stream until it ends. The context of its deliveries ends with it.
func (c *Client) subscribeOnce(
	ctx context.Context,
	options SubscribeOptions,
	deliver func(context.Context, []*Delivery),
	joined func(),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request := &pb.SubscribeRequest{
		Topics:      options.Topics,
		GroupId:     options.Group,
		ConsumerId:  options.ConsumerID,
		MaxMessages: int32(options.MaxMessages),
		Mode:        pb.GroupMode(options.Mode),
	}
	if options.FromLatest {
		request.StartPosition = pb.ConsumeStartPosition_CONSUME_START_POSITION_LATEST
	}
	if options.SessionTimeout > 0 {
		request.SessionTimeout = durationpb.New(options.SessionTimeout)
	}
	stream, err := c.Consuming.Subscribe(ctx, request)
	if err != nil {
		return callError(err, nil)
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return streamError(err, stream.Trailer())
		}
		switch payload := response.GetPayload().(type) {
		case *pb.ConsumeResponse_Error:
			return itemError(payload.Error)
		case *pb.ConsumeResponse_Assignment:
			joined()
			if options.OnAssignment != nil {
				options.OnAssignment(payload.Assignment.GetPartitions())
			}
		case *pb.ConsumeResponse_Messages:
			var batch []*Delivery
			for _, message := range payload.Messages.GetMessages() {
				batch = append(batch, &Delivery{
					Received:      receivedOf(message),
					ReceiptHandle: message.GetReceiptHandle(),
					Deadline:      message.GetDeadline().AsTime(),
					client:        c,
					leased:        ctx,
				})
			}
			deliver(ctx, batch)
		}
	}
}

func receivedOf(message *pb.Message) Received {
	return Received{
		Topic:      message.GetTopic(),
		Partition:  message.GetPartition(),
		Offset:     message.GetOffset(),
		Timestamp:  message.GetTimestamp().AsTime(),
		Key:        message.GetKey(),
		Value:      message.Value,
		Headers:    message.GetHeaders(),
		Priority:   priorityOf(message.GetPriority()),
		TraceID:    message.GetTraceId(),
		RetryCount: message.GetRetryCount(),
	}
}

// ConsumeOptions say what to read. The zero values of From… start at the earliest message.
type ConsumeOptions struct {
	Topic string
	// Partitions are all if empty.
	Partitions  []int32
	FromLatest  bool
	FromOffset  *int64
	FromTime    time.Time
	Uncommitted bool
	MaxMessages int
}

// Consume reads partitions in offset order and calls handle for each message, until the context
// ends, handle returns an error, or the call fails. It does not reconnect: the caller knows where
// it is.
func (c *Client) Consume(
	ctx context.Context, options ConsumeOptions, handle func(*Received) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request := &pb.ConsumeRequest{
		Topic:       options.Topic,
		Partitions:  options.Partitions,
		MaxMessages: int32(options.MaxMessages),
	}
	switch {
	case options.FromOffset != nil:
		request.StartPosition = pb.ConsumeStartPosition_CONSUME_START_POSITION_OFFSET
		request.StartOffset = *options.FromOffset
	case !options.FromTime.IsZero():
		request.StartPosition = pb.ConsumeStartPosition_CONSUME_START_POSITION_TIMESTAMP
		request.StartTimestamp = timestamppb.New(options.FromTime)
	case options.FromLatest:
		request.StartPosition = pb.ConsumeStartPosition_CONSUME_START_POSITION_LATEST
	}
	if options.Uncommitted {
		request.Isolation = pb.Isolation_ISOLATION_READ_UNCOMMITTED
	}
	stream, err := c.Consuming.Consume(ctx, request)
	if err != nil {
		return err
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return streamError(err, stream.Trailer())
		}
		if refused := response.GetError(); refused != nil {
			return itemError(refused)
		}
		for _, message := range response.GetMessages().GetMessages() {
			received := receivedOf(message)
			if err := handle(&received); err != nil {
				return err
			}
		}
	}
}
