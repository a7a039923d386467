package goqueue

import (
	"context"
)

// Consumer is a membership in a group that is polled. It is for one goroutine at a time.
type Consumer struct {
	client  *Client
	cancel  context.CancelFunc
	batches chan []*Delivery
	ended   chan struct{}
	err     error
	rest    []*Delivery
}

// NewConsumer joins a group until Close or the end of the context, which leaves it and frees what is
// leased. Like a subscription it reconnects until then.
func (c *Client) NewConsumer(ctx context.Context, options SubscribeOptions) *Consumer {
	ctx, cancel := context.WithCancel(ctx)
	consumer := &Consumer{
		client:  c,
		cancel:  cancel,
		batches: make(chan []*Delivery),
		ended:   make(chan struct{}),
	}
	go func() {
		defer close(consumer.ended)
		deliver := func(ctx context.Context, batch []*Delivery) {
			select {
			case consumer.batches <- batch:
			case <-ctx.Done():
			}
		}
		consumer.err = c.keepSubscribed(ctx, options, deliver)
		if consumer.err == nil {
			consumer.err = ErrClosed
		}
	}()
	return consumer
}

// Poll waits for messages and returns at least one and at most max of them (as many as have come if
// max is 0). A message stays leased until its Deadline; settle it before. The error is that of the
// context, or why the consumer has ended: ErrClosed after Close.
func (c *Consumer) Poll(ctx context.Context, max int) ([]*Delivery, error) {
	for {
		if found := c.take(max); len(found) > 0 {
			return found, nil
		}
		select {
		case batch := <-c.batches:
			c.rest = batch
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ended:
			return nil, c.err
		}
	}
}

// take returns what is left of a batch, unless the stream that leased it has broken: then the
// messages come again.
func (c *Consumer) take(max int) []*Delivery {
	if len(c.rest) == 0 || c.rest[0].leased.Err() != nil {
		c.rest = nil
		return nil
	}
	if max <= 0 || max > len(c.rest) {
		max = len(c.rest)
	}
	found := c.rest[:max:max]
	c.rest = c.rest[max:]
	return found
}

// Ack settles messages in one call. The error is that of the call, or the first of a message.
func (c *Consumer) Ack(ctx context.Context, deliveries ...*Delivery) error {
	if len(deliveries) == 0 {
		return nil
	}
	refused, err := c.client.AckAll(ctx, deliveries)
	if err != nil {
		return err
	}
	for _, delivery := range deliveries {
		if err := refused[delivery.ReceiptHandle]; err != nil {
			return err
		}
	}
	return nil
}

// Close leaves the group and frees what is leased.
func (c *Consumer) Close() error {
	c.cancel()
	<-c.ended
	return nil
}
