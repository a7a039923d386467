// Publishes ten messages over one stream: publish ADDRESS TOPIC
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	goqueue "github.com/goqueue/goqueue/clients/go"
)

func main() {
	client, err := goqueue.Connect(os.Args[1], goqueue.WithAPIKey(os.Getenv("GOQUEUE_API_KEY")))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	producer := client.NewProducer(ctx)
	defer producer.Close()
	for number := range 10 {
		message := goqueue.Message{Topic: os.Args[2], Value: fmt.Appendf(nil, "message %d", number)}
		producer.PublishAsync(ctx, message, func(placed goqueue.Placed, err error) {
			if err != nil {
				log.Print(err)
				return
			}
			fmt.Printf("stored in partition %d at offset %d\n", placed.Partition, placed.Offset)
		})
	}
}
