package goqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	pb "github.com/goqueue/goqueue/clients/go/gen/goqueue/v1"
)

// identify asks for the id of the producer, if it needs one and has none.
func (p *Producer) identify(ctx context.Context) error {
	if !p.settings.isStamped() {
		return nil
	}
	p.naming.Lock()
	defer p.naming.Unlock()
	p.lock.Lock()
	isKnown := p.stamps.id != 0
	p.lock.Unlock()
	if isKnown {
		return nil
	}
	request := &pb.InitProducerRequest{
		TransactionalId:      p.settings.transactionalID,
		TransactionTimeoutMs: int64(p.settings.transactionTimeout / time.Millisecond),
	}
	var trailer metadata.MD
	answer, err := p.client.Transactions.InitProducer(ctx, request, grpc.Trailer(&trailer))
	if err != nil {
		return callError(err, trailer)
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	p.stamps = stamps{
		id: answer.GetProducerId(), epoch: answer.GetEpoch(),
		sequences: map[partitionName]*sequence{},
	}
	return nil
}

var errNoTransactions = errors.New("goqueue: the producer is not transactional")

// Begin opens a transaction. What is published until Commit is stored as a whole, or not at all.
func (p *Producer) Begin(ctx context.Context) error {
	if p.settings.transactionalID == "" {
		return errNoTransactions
	}
	err := p.client.retry(ctx, IsRetriable, func() error { return p.identify(ctx) })
	if err != nil {
		return err
	}
	id, epoch := p.identity()
	request := &pb.BeginTransactionRequest{
		TransactionalId: p.settings.transactionalID, ProducerId: id, Epoch: epoch,
	}
	err = p.client.retry(ctx, isUndone, func() error {
		var trailer metadata.MD
		_, err := p.client.Transactions.BeginTransaction(ctx, request, grpc.Trailer(&trailer))
		return callError(err, trailer)
	})
	if err != nil {
		return err
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	p.failure = nil
	p.began = p.stamps.epoch
	return nil
}

func (p *Producer) identity() (int64, int32) {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.stamps.id, p.stamps.epoch
}

// Commit waits for what was published and commits the transaction. If a message of it was not
// stored, Commit fails, and the transaction has to be aborted. Commit may be repeated.
func (p *Producer) Commit(ctx context.Context) error {
	if p.settings.transactionalID == "" {
		return errNoTransactions
	}
	if err := p.Flush(ctx); err != nil {
		return err
	}
	p.lock.Lock()
	failure := p.failure
	p.lock.Unlock()
	if failure != nil {
		return fmt.Errorf("goqueue: a message of the transaction was not stored: %w", failure)
	}
	id, epoch := p.identity()
	request := &pb.CommitTransactionRequest{
		TransactionalId: p.settings.transactionalID, ProducerId: id, Epoch: epoch,
	}
	return p.client.retry(ctx, IsRetriable, func() error {
		var trailer metadata.MD
		_, err := p.client.Transactions.CommitTransaction(ctx, request, grpc.Trailer(&trailer))
		return callError(err, trailer)
	})
}

// Abort waits for what was published and aborts the transaction. It may be repeated.
func (p *Producer) Abort(ctx context.Context) error {
	if p.settings.transactionalID == "" {
		return errNoTransactions
	}
	if err := p.Flush(ctx); err != nil {
		return err
	}
	p.lock.Lock()
	isOver := p.stamps.id != 0 && p.stamps.epoch != p.began
	isNameless := p.stamps.id == 0
	p.lock.Unlock()
	if isNameless {
		// The next id of the producer ends what was open under the last one.
		return p.client.retry(ctx, IsRetriable, func() error { return p.identify(ctx) })
	}
	if isOver {
		return nil
	}
	id, epoch := p.identity()
	request := &pb.AbortTransactionRequest{
		TransactionalId: p.settings.transactionalID, ProducerId: id, Epoch: epoch,
	}
	return p.client.retry(ctx, IsRetriable, func() error {
		var trailer metadata.MD
		_, err := p.client.Transactions.AbortTransaction(ctx, request, grpc.Trailer(&trailer))
		return callError(err, trailer)
	})
}
