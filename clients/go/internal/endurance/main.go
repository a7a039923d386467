// Endurance publishes and handles numbers without end, whatever becomes of the node:
//
//	endurance ADDRESS TOPIC GROUP
//
// It prints "stored N" for what an idempotent producer was told is stored in one of the two
// partitions of TOPIC, and "handled N" for what a member of GROUP has handled. When its standard
// input ends it stops publishing, prints "published", and goes on handling until it is killed.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"time"

	goqueue "github.com/goqueue/goqueue/clients/go"
)

var (
	lock sync.Mutex
	out  = bufio.NewWriter(os.Stdout)
)

func say(format string, values ...any) {
	lock.Lock()
	defer lock.Unlock()
	fmt.Fprintf(out, format+"\n", values...)
	out.Flush()
}

func publish(ctx context.Context, client *goqueue.Client, topic string, isOver <-chan struct{}) {
	producer := client.NewProducer(ctx, goqueue.Idempotent(), goqueue.MaxInFlight(100))
	for number := 0; ; number++ {
		select {
		case <-isOver:
			producer.Close()
			say("published")
			return
		default:
		}
		partition := int32(number % 2)
		message := goqueue.Message{Topic: topic, Value: fmt.Append(nil, number), Partition: &partition}
		producer.PublishAsync(ctx, message, func(_ goqueue.Placed, err error) {
			if err != nil {
				log.Fatalf("publish: %v", err)
			}
			say("stored %d", number)
		})
		if number%20 == 0 {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func main() {
	ctx := context.Background()
	client, err := goqueue.Connect(os.Args[1], goqueue.WithRetries(100))
	if err != nil {
		log.Fatal(err)
	}
	isOver := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(isOver)
	}()
	go publish(ctx, client, os.Args[2], isOver)
	consumer := client.NewConsumer(ctx, goqueue.SubscribeOptions{
		Group: os.Args[3], Topics: []string{os.Args[2]}, MaxMessages: 200,
		// The node remembers members of its last life until their sessions end.
		SessionTimeout: time.Second,
	})
	for {
		batch, err := consumer.Poll(ctx, 0)
		if err != nil {
			log.Fatalf("poll: %v", err)
		}
		for _, delivery := range batch {
			say("handled %s", delivery.Value)
		}
		// Leases that the node has ended come again.
		if err := consumer.Ack(ctx, batch...); err != nil && !goqueue.IsCode(err, "receipt_stale") {
			log.Fatalf("ack: %v", err)
		}
	}
}
