// Conformance runs the behaviours that all clients share and prints their results as JSON:
//
//	conformance ADDRESS PREFIX
//
// The topics PREFIX.a (three partitions) and PREFIX.q, PREFIX.l, PREFIX.t and PREFIX.d (one
// partition) exist.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	goqueue "github.com/goqueue/goqueue/clients/go"
	pb "github.com/goqueue/goqueue/clients/go/gen/goqueue/v1"
)

var errEnough = errors.New("enough")

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func code(err error) string {
	var refused *goqueue.Error
	if err == nil {
		return "ok"
	}
	if errors.As(err, &refused) {
		return refused.Code
	}
	return err.Error()
}

func main() {
	address, prefix := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := goqueue.Connect(address)
	check(err)
	defer client.Close()
	results := map[string]any{}
	publishing(ctx, client, prefix, results)
	reading(ctx, client, prefix, results)
	leasing(ctx, client, prefix, results)
	offsets(ctx, client, prefix, results)
	transactions(ctx, client, prefix, results)
	delays(ctx, client, prefix, results)
	check(json.NewEncoder(os.Stdout).Encode(results))
}

func publishing(ctx context.Context, client *goqueue.Client, prefix string, results map[string]any) {
	producer := client.NewProducer(ctx)
	defer producer.Close()
	topic := prefix + ".a"
	place := func(number int32) *int32 { return &number }
	placed, err := producer.Publish(ctx, goqueue.Message{
		Topic: topic, Key: []byte("user-100"), Value: []byte("x"),
	})
	check(err)
	results["partition_of_key"] = placed.Partition
	refused := map[string]goqueue.Message{
		"unknown_topic":      {Topic: prefix + ".never", Value: []byte("x")},
		"invalid_topic":      {Topic: "no spaces", Value: []byte("x")},
		"negative_partition": {Topic: topic, Value: []byte("x"), Partition: place(-1)},
		"missing_partition":  {Topic: topic, Value: []byte("x"), Partition: place(99)},
		"too_large":          {Topic: topic, Value: make([]byte, 2<<20)},
		"delay_too_long":     {Topic: topic, Value: []byte("x"), Delay: 10_000 * time.Hour},
		"reserved_header": {
			Topic: topic, Value: []byte("x"), Headers: map[string]string{"gq.mine": "x"},
		},
	}
	for name, message := range refused {
		_, err := producer.Publish(ctx, message)
		results[name] = code(err)
		_, err = client.Publish(ctx, message)
		results[name+"_unary"] = code(err)
	}
}

func reading(ctx context.Context, client *goqueue.Client, prefix string, results map[string]any) {
	topic := prefix + ".q"
	for _, message := range []goqueue.Message{
		{
			Topic: topic, Key: []byte{0, 255}, Value: []byte{255, 0},
			Headers: map[string]string{"a": "é"}, Priority: goqueue.High,
		},
		{Topic: topic, Key: []byte("k"), Value: nil},
		{Topic: topic, Key: []byte("k"), Value: []byte{}},
	} {
		_, err := client.Publish(ctx, message)
		check(err)
	}
	var shown []any
	names := map[goqueue.Priority]string{goqueue.High: "high", goqueue.Normal: "normal"}
	err := client.Consume(ctx, goqueue.ConsumeOptions{Topic: topic}, func(m *goqueue.Received) error {
		var value any
		if !m.IsTombstone() {
			value = hex.EncodeToString(m.Value)
		}
		headers := m.Headers
		if headers == nil {
			headers = map[string]string{}
		}
		shown = append(shown, []any{
			m.Offset, hex.EncodeToString(m.Key), value, headers, names[m.Priority],
		})
		if len(shown) == 3 {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		check(err)
	}
	results["round_trip"] = shown
	err = client.Consume(ctx, goqueue.ConsumeOptions{Topic: prefix + ".never"}, nil)
	results["consume_unknown"] = code(err)
}

func leasing(ctx context.Context, client *goqueue.Client, prefix string, results map[string]any) {
	topic := prefix + ".l"
	for _, value := range []string{"acked", "nacked", "rejected"} {
		_, err := client.Publish(ctx, goqueue.Message{Topic: topic, Value: []byte(value)})
		check(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group := prefix + ".group"
	subscription := client.Subscribe(ctx, goqueue.SubscribeOptions{
		Group: group, Topics: []string{topic}, MaxMessages: 10,
	})
	var held []*goqueue.Delivery
	var shown []any
	for range 3 {
		delivery := <-subscription.Messages()
		held = append(held, delivery)
		shown = append(shown, []any{string(delivery.Value), delivery.RetryCount})
	}
	results["leased"] = shown
	check(held[0].Ack(ctx))
	results["acked_again"] = code(held[0].Ack(ctx))
	check(held[1].Nack(ctx, "later", 0))
	again := <-subscription.Messages()
	results["redelivered"] = []any{string(again.Value), again.RetryCount}
	results["stale_receipt"] = code(held[1].Ack(ctx))
	letters, err := held[2].Reject(ctx, "unreadable")
	check(err)
	results["rejected"] = strings.TrimPrefix(letters, prefix)
	refused, err := client.AckAll(ctx, []*goqueue.Delivery{again, {ReceiptHandle: "nonsense"}})
	check(err)
	results["batch"] = []any{len(refused), code(refused["nonsense"])}
}

func offsets(ctx context.Context, client *goqueue.Client, prefix string, results map[string]any) {
	group, topic := prefix+".offsets", prefix+".q"
	commit := func(offset int64) string {
		answer, err := client.Offsets.CommitOffsets(ctx, &pb.CommitOffsetsRequest{
			GroupId: group,
			Offsets: []*pb.OffsetCommit{{Topic: topic, Offset: offset}},
		})
		check(err)
		result := answer.GetResults()[0]
		if result.GetSuccess() {
			return "ok"
		}
		name := strings.TrimPrefix(result.GetError().GetCode().String(), "ERROR_CODE_")
		return strings.ToLower(name)
	}
	results["commits"] = []string{commit(2), commit(99)}
	fetched, err := client.Offsets.FetchOffsets(ctx, &pb.FetchOffsetsRequest{GroupId: group})
	check(err)
	results["fetched"] = fetched.GetOffsets()[0].GetOffset()
	reset := func(strategy pb.OffsetResetStrategy) []int64 {
		answer, err := client.Offsets.ResetOffsets(ctx, &pb.ResetOffsetsRequest{
			GroupId: group, Strategy: strategy,
		})
		check(err)
		var found []int64
		for _, result := range answer.GetResults() {
			found = append(found, result.GetNewOffset())
		}
		return found
	}
	results["reset"] = [][]int64{
		reset(pb.OffsetResetStrategy_OFFSET_RESET_STRATEGY_EARLIEST),
		reset(pb.OffsetResetStrategy_OFFSET_RESET_STRATEGY_LATEST),
	}
}

func transactions(ctx context.Context, client *goqueue.Client, prefix string, results map[string]any) {
	topic, id, partition := prefix+".t", prefix+".producer", int32(0)
	producer := client.NewProducer(ctx, goqueue.Transactional(id, 0))
	defer producer.Close()
	publish := func(value string, partition *int32) error {
		message := goqueue.Message{Topic: topic, Value: []byte(value), Partition: partition}
		_, err := producer.Publish(ctx, message)
		return err
	}
	results["outside_transaction"] = code(publish("x", nil))
	check(producer.Begin(ctx))
	results["begun_twice"] = code(producer.Begin(ctx))
	check(publish("aborted", &partition))
	check(producer.Abort(ctx))
	check(producer.Begin(ctx))
	check(publish("committed", &partition))
	check(publish("without a number", nil))
	check(producer.Commit(ctx))
	newer := client.NewProducer(ctx, goqueue.Transactional(id, 0))
	defer newer.Close()
	check(newer.Begin(ctx))
	check(newer.Abort(ctx))
	results["fenced"] = code(producer.Begin(ctx))
	var shown []string
	options := goqueue.ConsumeOptions{Topic: topic}
	err := client.Consume(ctx, options, func(message *goqueue.Received) error {
		shown = append(shown, string(message.Value))
		if len(shown) == 2 {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		check(err)
	}
	results["committed"] = shown
}

func delays(ctx context.Context, client *goqueue.Client, prefix string, results map[string]any) {
	topic, sent, delay := prefix+".d", time.Now(), 300*time.Millisecond
	_, err := client.Publish(ctx, goqueue.Message{Topic: topic, Value: []byte("later"), Delay: delay})
	check(err)
	_, err = client.Publish(ctx, goqueue.Message{Topic: topic, Value: []byte("at once")})
	check(err)
	consumer := client.NewConsumer(ctx, goqueue.SubscribeOptions{
		Group: prefix + ".delays", Topics: []string{topic},
	})
	defer consumer.Close()
	var shown []any
	for len(shown) < 2 {
		batch, err := consumer.Poll(ctx, 1)
		check(err)
		isDue := time.Since(sent) >= delay || len(shown) == 0
		shown = append(shown, []any{string(batch[0].Value), isDue})
		check(consumer.Ack(ctx, batch...))
	}
	results["delayed"] = shown
}
