package goqueue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/goqueue/goqueue/clients/go/gen/goqueue/v1"
)

// Maximum number of messages that wait for their answers; Publish waits when there are more.
const inFlightMax = 10_000

type producerSettings struct {
	acks               AckMode
	isIdempotent       bool
	transactionalID    string
	transactionTimeout time.Duration
	inFlightMax        int
}

// ProducerOption changes how a producer publishes.
type ProducerOption func(*producerSettings)

// WithAcks says what answers wait for.
func WithAcks(mode AckMode) ProducerOption { return func(s *producerSettings) { s.acks = mode } }

// Idempotent numbers the messages of each partition, so that one that is sent again is stored once.
// Every message needs a Partition (see PartitionOf), and at most five of each partition are on
// their way at a time: the node remembers so many.
func Idempotent() ProducerOption { return func(s *producerSettings) { s.isIdempotent = true } }

// Transactional lets the producer publish in transactions: see Begin. A newer producer with the same
// id fences this one. A transaction that lasts longer than the timeout is aborted (0: a minute).
// Messages with a Partition are numbered as those of an idempotent producer; others are not sent
// again when it is unknown whether they were stored.
func Transactional(id string, timeout time.Duration) ProducerOption {
	return func(s *producerSettings) { s.transactionalID, s.transactionTimeout = id, timeout }
}

// MaxInFlight bounds how many messages wait for their answers (10,000 unless set).
func MaxInFlight(count int) ProducerOption {
	return func(s *producerSettings) { s.inFlightMax = max(count, 1) }
}

// pending is a message that has no answer yet.
type pending struct {
	ctx     context.Context
	request *pb.PublishStreamRequest
	done    func(Placed, error)
	tries   int
	isSent  bool
	// Whether it may be stored, although nobody said so.
	isUnknown bool
}

// Producer publishes over one stream; many messages may be on their way. It is safe for concurrent
// use. A stream that breaks is opened again, and what was not answered is sent again: without
// Idempotent a message may then be stored twice. A message that the node refuses for a while is
// sent again later, after those that were sent meanwhile.
type Producer struct {
	client   *Client
	settings producerSettings
	ctx      context.Context
	cancel   context.CancelFunc
	ended    chan struct{}
	room     chan struct{}
	wake     chan struct{}
	naming   sync.Mutex

	lock sync.Mutex
	// What is accepted is in one of three lists, each in order, until it is answered: it is on the
	// stream, has to be sent again, or was never sent.
	sent, again, queue []*pending
	number             int
	resumeAt           time.Time
	itemDelays         delays
	hasAnswers         bool
	isClosed           bool
	unfinished         int
	waiters            []chan struct{}
	stamps             stamps
	numbers            drain
	failure            error
	began              int32
}

// NewProducer returns a producer, which lives until Close or the end of the context.
func (c *Client) NewProducer(ctx context.Context, options ...ProducerOption) *Producer {
	settings := producerSettings{inFlightMax: inFlightMax}
	for _, option := range options {
		option(&settings)
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Producer{
		client:     c,
		settings:   settings,
		ctx:        ctx,
		cancel:     cancel,
		ended:      make(chan struct{}),
		room:       make(chan struct{}, settings.inFlightMax),
		wake:       make(chan struct{}, 1),
		itemDelays: c.delays,
	}
	go p.run()
	return p
}

// Publish publishes a message and waits until it is stored. If the context ends first, the message
// may be stored nevertheless.
func (p *Producer) Publish(ctx context.Context, message Message) (Placed, error) {
	type outcome struct {
		placed Placed
		err    error
	}
	done := make(chan outcome, 1)
	p.PublishAsync(ctx, message, func(placed Placed, err error) { done <- outcome{placed, err} })
	select {
	case found := <-done:
		return found.placed, found.err
	case <-ctx.Done():
		return Placed{}, ctx.Err()
	}
}

// PublishAsync publishes a message and calls done once: when it is stored, refused, or the producer
// has ended. It waits only if too many messages are on their way. A message that was not sent when
// its context ends is not sent. Messages of one goroutine keep their order. done must not wait for
// the producer.
func (p *Producer) PublishAsync(ctx context.Context, message Message, done func(Placed, error)) {
	request, err := requestOf(message, p.settings.acks)
	if err == nil && p.settings.isIdempotent && message.Partition == nil {
		err = refusal("request_invalid", "messages of an idempotent producer need a partition")
	}
	if err != nil {
		done(Placed{}, err)
		return
	}
	select {
	case p.room <- struct{}{}:
	case <-ctx.Done():
		done(Placed{}, ctx.Err())
		return
	case <-p.ended:
		done(Placed{}, ErrClosed)
		return
	}
	p.lock.Lock()
	isClosed := p.isClosed
	if !isClosed {
		p.queue = append(p.queue, &pending{ctx: ctx, request: request, done: done})
		p.unfinished++
	}
	p.lock.Unlock()
	if isClosed {
		<-p.room
		done(Placed{}, ErrClosed)
		return
	}
	p.signal()
}

// Flush waits until everything that was published before is answered.
func (p *Producer) Flush(ctx context.Context) error {
	select {
	case <-p.idle():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close waits for what was published, as long as retries last, and ends the producer.
func (p *Producer) Close() error {
	p.lock.Lock()
	p.isClosed = true
	p.lock.Unlock()
	<-p.idle()
	p.cancel()
	<-p.ended
	return nil
}

// idle is closed when nothing is unfinished.
func (p *Producer) idle() <-chan struct{} {
	p.lock.Lock()
	defer p.lock.Unlock()
	waiter := make(chan struct{})
	if p.unfinished == 0 {
		close(waiter)
	} else {
		p.waiters = append(p.waiters, waiter)
	}
	return waiter
}

// signal wakes what waits for something to send.
func (p *Producer) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// finish reports the outcome of messages that are in no list any more.
func (p *Producer) finish(placed Placed, err error, entries ...*pending) {
	for _, entry := range entries {
		<-p.room
		entry.done(placed, err)
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	if err != nil && len(entries) > 0 {
		p.failure = err
	}
	p.unfinished -= len(entries)
	if p.unfinished == 0 {
		for _, waiter := range p.waiters {
			close(waiter)
		}
		p.waiters = nil
	}
}

// run keeps a stream open while there is something to send.
func (p *Producer) run() {
	defer p.end()
	delays := p.client.delays
	for p.waitForWork() {
		err := p.session()
		if p.ctx.Err() != nil {
			return
		}
		if errors.Is(err, errRenewed) {
			continue
		}
		if p.recoverFrom(err) {
			delays.reset()
		}
		if sleep(p.ctx, delays.next(err)) != nil {
			return
		}
	}
}

// end fails what is left: nothing is accepted any more.
func (p *Producer) end() {
	p.lock.Lock()
	p.isClosed = true
	left := append(append(append(p.numbers.returned, p.sent...), p.again...), p.queue...)
	p.sent, p.again, p.queue, p.numbers = nil, nil, nil, drain{}
	p.lock.Unlock()
	p.finish(Placed{}, ErrClosed, left...)
	p.cancel()
	close(p.ended)
}

func (p *Producer) waitForWork() bool {
	for {
		p.lock.Lock()
		hasWork := len(p.again)+len(p.queue) > 0
		p.lock.Unlock()
		if hasWork {
			return p.ctx.Err() == nil
		}
		select {
		case <-p.wake:
		case <-p.ctx.Done():
			return false
		}
	}
}

// session serves one stream until it ends, and says why it did.
func (p *Producer) session() error {
	p.lock.Lock()
	p.hasAnswers = false
	p.stamps.rewind()
	p.lock.Unlock()
	if err := p.identify(p.ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	stream, err := p.client.Publishing.PublishStream(ctx)
	if err != nil {
		return callError(err, nil)
	}
	failed := make(chan error, 1)
	go func() {
		failed <- p.receive(stream)
		cancel()
	}()
	for {
		entry, dropped, wait := p.take()
		if dropped != nil {
			p.finish(Placed{}, dropped.ctx.Err(), dropped)
			continue
		}
		if entry != nil {
			// A stream that broke says why to the one who receives.
			if stream.Send(entry.request) != nil {
				return <-failed
			}
			continue
		}
		var resume <-chan time.Time
		if wait > 0 {
			resume = time.After(wait)
		}
		select {
		case <-p.wake:
		case <-resume:
		case err := <-failed:
			return err
		}
	}
}

// take is the next message to send, one whose context has ended, or how long to wait for one.
func (p *Producer) take() (entry, dropped *pending, wait time.Duration) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.numbers.isDraining {
		return nil, nil, 0
	}
	if wait := time.Until(p.resumeAt); wait > 0 {
		return nil, nil, wait
	}
	from := &p.again
	if len(p.again) == 0 {
		from = &p.queue
	}
	if len(*from) == 0 {
		return nil, nil, 0
	}
	entry = (*from)[0]
	isDropped := !entry.isSent && entry.ctx.Err() != nil
	if !isDropped && !p.stamps.stamp(entry.request, &p.settings) {
		return nil, nil, 0
	}
	*from = withoutFirst(*from)
	if isDropped {
		return nil, entry, 0
	}
	p.number++
	entry.request.CorrelationId = strconv.Itoa(p.number)
	entry.isSent = true
	p.sent = append(p.sent, entry)
	return entry, nil, 0
}

func (p *Producer) receive(stream grpc.BidiStreamingClient[pb.PublishStreamRequest, pb.PublishStreamResponse]) error {
	for {
		answer, err := stream.Recv()
		if err != nil {
			return streamError(err, stream.Trailer())
		}
		if err := p.settle(answer); err != nil {
			return err
		}
	}
}

// settle gives an answer to the oldest message on the stream. An error ends the session.
func (p *Producer) settle(answer *pb.PublishStreamResponse) error {
	defer p.signal()
	p.lock.Lock()
	if len(p.sent) == 0 || p.sent[0].request.GetCorrelationId() != answer.GetCorrelationId() {
		p.lock.Unlock()
		return status.Error(codes.Internal, "the node answered a message that was not sent")
	}
	p.hasAnswers = true
	entry := p.sent[0]
	p.sent = withoutFirst(p.sent)
	p.stamps.leave(entry.request)
	var refused *Error
	var isRepeated bool
	if answer.GetError() == nil {
		p.itemDelays.reset()
	} else {
		refused = itemError(answer.GetError())
		isRepeated = p.refuse(entry, refused)
	}
	var uncertain []*pending
	var isRenewed bool
	if p.numbers.isDraining && len(p.sent) == 0 {
		uncertain, isRenewed = p.resolve()
	}
	p.lock.Unlock()
	switch {
	case refused == nil:
		p.finish(placedOf(answer), nil, entry)
	case !isRepeated:
		p.finish(Placed{}, refused, entry)
	}
	p.finish(Placed{}, uncertainError(refused), uncertain...)
	if isRenewed {
		return errRenewed
	}
	return nil
}

// refuse decides whether a refused message is sent again. The lock is held.
func (p *Producer) refuse(entry *pending, refused *Error) bool {
	isNumbered := p.settings.isNumbered(entry.request)
	if isNumbered && p.numbers.isFollower(entry.request, refused) {
		p.numbers.returned = append(p.numbers.returned, entry)
		return true
	}
	canRepeat := IsRetriable(refused) &&
		(isUndone(refused) || isNumbered || p.settings.transactionalID == "")
	isRepeated := canRepeat && entry.tries < p.client.retries
	if IsRetriable(refused) && !isUndone(refused) {
		entry.isUnknown = true
	}
	if isRepeated {
		entry.tries++
		p.resumeAt = time.Now().Add(p.itemDelays.next(refused))
	}
	switch {
	case isNumbered && isRepeated:
		p.numbers.wait(entry)
	case isNumbered:
		isUncertain := entry.isUnknown && !neverStored[refused.Code]
		p.numbers.leave(entry, isUncertain || p.isUnnumbering(refused))
	case isRepeated:
		p.again = append(p.again, entry)
	}
	return isRepeated
}

func withoutFirst(entries []*pending) []*pending {
	entries[0] = nil
	return entries[1:]
}

// isUnnumbering says whether an error shows that the node does not know the numbers of the producer.
func (p *Producer) isUnnumbering(err error) bool {
	return IsCode(err, "producer_not_found") || IsCode(err, "sequence_out_of_order") ||
		(IsCode(err, "producer_fenced") && p.settings.transactionalID == "")
}

// recoverFrom decides what is sent again after a stream broke; whether that had answers.
func (p *Producer) recoverFrom(err error) bool {
	p.lock.Lock()
	hasAnswers := p.hasAnswers
	for _, entry := range p.sent {
		entry.isUnknown = entry.isUnknown || !p.numbers.isBehindHole(entry.request)
	}
	waiting := append(append(p.numbers.returned, p.sent...), p.again...)
	p.sent, p.numbers.returned = nil, nil
	var dropped []*pending
	p.again, dropped = p.divide(waiting, err)
	for _, entry := range dropped {
		if p.settings.isNumbered(entry.request) && entry.request.Sequence != nil {
			p.numbers.leave(entry, entry.isUnknown)
		}
	}
	if !hasAnswers {
		var unsent []*pending
		p.queue, unsent = p.divide(p.queue, err)
		dropped = append(dropped, unsent...)
	}
	uncertain, _ := p.resolve()
	p.lock.Unlock()
	p.finish(Placed{}, err, dropped...)
	p.finish(Placed{}, uncertainError(err), uncertain...)
	return hasAnswers
}

// divide counts a try and splits messages into those that are sent again and those that failed. The
// lock is held.
func (p *Producer) divide(entries []*pending, err error) (kept, dropped []*pending) {
	isRetriable := IsRetriable(err) && !p.client.isClosed()
	for _, entry := range entries {
		entry.tries++
		isSafe := !entry.isUnknown || p.settings.transactionalID == "" ||
			p.settings.isNumbered(entry.request)
		if isRetriable && isSafe && entry.tries <= p.client.retries {
			kept = append(kept, entry)
		} else {
			dropped = append(dropped, entry)
		}
	}
	return kept, dropped
}

func uncertainError(err error) error {
	return fmt.Errorf("goqueue: the message may be stored: %w", err)
}

func placedOf(answer *pb.PublishStreamResponse) Placed {
	return Placed{
		Topic:     answer.GetTopic(),
		Partition: answer.GetPartition(),
		Offset:    answer.GetOffset(),
		Timestamp: answer.GetTimestamp().AsTime(),
		Duplicate: answer.GetDuplicate(),
	}
}

// Publish publishes one message with a call of its own. It is not repeated after an unknown outcome.
func (c *Client) Publish(ctx context.Context, message Message) (Placed, error) {
	from, err := requestOf(message, AcksAll)
	if err != nil {
		return Placed{}, err
	}
	request := &pb.PublishRequest{
		Topic: from.Topic, Key: from.Key, Value: from.Value, Headers: from.Headers,
		Partition: from.Partition, Priority: from.Priority, Delay: from.Delay, DeliverAt: from.DeliverAt,
	}
	var answer *pb.PublishResponse
	err = c.retry(ctx, isUndone, func() error {
		var trailer metadata.MD
		var err error
		answer, err = c.Publishing.Publish(ctx, request, grpc.Trailer(&trailer))
		return callError(err, trailer)
	})
	if err != nil {
		return Placed{}, err
	}
	return Placed{
		Topic:     answer.GetTopic(),
		Partition: answer.GetPartition(),
		Offset:    answer.GetOffset(),
		Timestamp: answer.GetTimestamp().AsTime(),
		Duplicate: answer.GetDuplicate(),
	}, nil
}
