// Receives through cloud.google.com/go/pubsub and tells what came of it; compat_tests/subscribers.py says how.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

const work = time.Millisecond

type told struct {
	Event    string   `json:"event"`
	Received []string `json:"received,omitempty"`
	Peak     int      `json:"peak,omitempty"`
}

func (t told) tell() { must(json.NewEncoder(os.Stdout).Encode(t)) }

type receiver struct {
	what   string
	count  int
	finish context.CancelFunc
	lines  *bufio.Scanner

	lock     sync.Mutex
	received []string
	working  int
	peak     int
	acked    int
}

// begin notes a message and says whether it is new, and the first of all.
func (r *receiver) begin(data string) (isNew, first bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	isNew = true
	for _, earlier := range r.received {
		isNew = isNew && earlier != data
	}
	r.received = append(r.received, data)
	r.working++
	r.peak = max(r.peak, r.working)
	return isNew, len(r.received) == 1
}

func (r *receiver) end(acked bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.working--
	if acked {
		r.acked++
	}
	if r.acked == r.count {
		r.finish()
	}
}

func (r *receiver) take(_ context.Context, message *pubsub.Message) {
	isNew, first := r.begin(string(message.Data))
	if first && r.what == "hold" {
		told{Event: "holding"}.tell()
		r.lines.Scan()
	}
	time.Sleep(work)
	refused := isNew && r.what == "nack"
	if refused {
		message.Nack()
	} else {
		message.Ack()
	}
	r.end(!refused)
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	must(err)
	return value
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	project, name := os.Args[1], os.Args[2]
	client, err := pubsub.NewClient(context.Background(), project)
	must(err)
	subscriber := client.Subscriber(name)
	subscriber.ReceiveSettings.MaxOutstandingMessages = number(os.Args[5])

	ctx, cancel := context.WithCancel(context.Background())
	r := &receiver{count: number(os.Args[3]), what: os.Args[4], finish: cancel, lines: bufio.NewScanner(os.Stdin)}
	must(subscriber.Receive(ctx, r.take))
	request := &pubsubpb.GetSubscriptionRequest{Subscription: subscriber.String()}
	_, err = client.SubscriptionAdminClient.GetSubscription(context.Background(), request)
	must(err)
	told{Event: "closed", Received: r.received, Peak: r.peak}.tell()
	for r.lines.Scan() {
	}
	must(client.Close())
}
