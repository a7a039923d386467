package goqueue

import (
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/goqueue/goqueue/clients/go/gen/goqueue/v1"
)

// Priority of a message in queues.
type Priority int32

// Priorities; the zero value of Message is Normal.
const (
	Normal Priority = iota
	Critical
	High
	Low
	Background
)

var priorityNumbers = map[Priority]int32{Critical: 0, High: 1, Normal: 2, Low: 3, Background: 4}

// priorityOf is the priority with a number of the protocol.
func priorityOf(number int32) Priority {
	for priority, each := range priorityNumbers {
		if each == number {
			return priority
		}
	}
	return Normal
}

// Message is what is published. A nil Value is a null value: a tombstone on compacted topics.
type Message struct {
	Topic   string
	Key     []byte
	Value   []byte
	Headers map[string]string
	// Partition is chosen by key, or round robin, if nil.
	Partition *int32
	Priority  Priority
	// At most one of Delay and DeliverAt.
	Delay     time.Duration
	DeliverAt time.Time
}

// Placed is where a message was stored. With AcksNone nothing is known yet: its Offset is -1.
type Placed struct {
	Topic     string
	Partition int32
	Offset    int64
	Timestamp time.Time
	// Duplicate says that an earlier attempt of an idempotent producer had stored the message.
	Duplicate bool
}

// AckMode is what the answer to a publish waits for.
type AckMode int32

// Modes of acknowledgement; the zero value is AcksAll.
const (
	// AcksAll waits for enough replicas.
	AcksAll AckMode = iota
	// AcksLeader waits until the leader has flushed the message.
	AcksLeader
	// AcksNone waits until the leader has accepted it: the message may be lost.
	AcksNone
)

var ackNumbers = map[AckMode]pb.AckMode{
	AcksLeader: pb.AckMode_ACK_MODE_LEADER, AcksNone: pb.AckMode_ACK_MODE_NONE,
}

// requestOf is a message as a publish stream takes it. It refuses what would end the stream, and
// other messages with it.
func requestOf(message Message, acks AckMode) (*pb.PublishStreamRequest, error) {
	request := &pb.PublishStreamRequest{
		Topic:     message.Topic,
		Key:       message.Key,
		Value:     message.Value,
		Headers:   message.Headers,
		Partition: message.Partition,
	}
	priority, isKnown := priorityNumbers[message.Priority]
	if !isKnown {
		priority = int32(message.Priority)
	}
	request.Priority = &priority
	if mode, isSet := ackNumbers[acks]; isSet {
		request.AckMode = &mode
	}
	if message.Delay != 0 {
		request.Delay = durationpb.New(message.Delay)
	}
	if !message.DeliverAt.IsZero() {
		request.DeliverAt = timestamppb.New(message.DeliverAt)
	}
	if !utf8.ValidString(message.Topic) {
		return nil, refusal("name_invalid", "the name of the topic is not UTF-8")
	}
	for name, value := range message.Headers {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return nil, refusal("message_invalid", fmt.Sprintf("the header %q is not UTF-8", name))
		}
	}
	if size := proto.Size(request); size > messageBytesMax-requestBytesMore {
		return nil, refusal("body_too_large", fmt.Sprintf("the message has %d bytes", size))
	}
	return request, nil
}

// requestBytesMore is room for what a producer adds: a correlation id, its id, a sequence number.
const requestBytesMore = 64

// refusal is an error that the client finds before it asks.
func refusal(code, message string) *Error {
	status, isKnown := statuses[code]
	if !isKnown {
		status = codes.Unknown
	}
	return &Error{Code: code, Message: message, Status: status}
}
