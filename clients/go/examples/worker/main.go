// Handles the messages of a topic as a member of a group: worker ADDRESS TOPIC GROUP [COUNT]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"

	goqueue "github.com/goqueue/goqueue/clients/go"
)

func main() {
	client, err := goqueue.Connect(os.Args[1], goqueue.WithAPIKey(os.Getenv("GOQUEUE_API_KEY")))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	left := -1
	if len(os.Args) > 4 {
		left, _ = strconv.Atoi(os.Args[4])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	subscription := client.Subscribe(ctx, goqueue.SubscribeOptions{
		Group:  os.Args[3],
		Topics: []string{os.Args[2]},
	})
	for delivery := range subscription.Messages() {
		fmt.Printf("handling %s\n", delivery.Value)
		if err := delivery.Ack(ctx); err != nil {
			log.Print(err)
		}
		if left--; left == 0 {
			stop()
		}
	}
	if err := subscription.Err(); err != nil {
		log.Fatal(err)
	}
}
