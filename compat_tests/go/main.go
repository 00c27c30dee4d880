// Makes the calls of a plan through grpc-go and reports what came of them; compat_tests/peers.py says how.
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

type step struct {
	Name      string            `json:"name"`
	Path      string            `json:"path"`
	Request   string            `json:"request"`
	Count     int               `json:"count"`
	InFlight  int               `json:"in_flight"`
	TimeoutMs int               `json:"timeout_ms"`
	CancelMs  int               `json:"cancel_ms"`
	Metadata  map[string]string `json:"metadata"`
	Gzip      bool              `json:"gzip"`
}

type outcome struct {
	Codes   map[int]int `json:"codes"`
	Message string      `json:"message"`
	Replies [][]byte    `json:"replies"`
}

// asIs takes and gives the bytes of a message.
type asIs struct{}

func (asIs) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }

func (asIs) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append([]byte{}, data...)
	return nil
}

func (asIs) Name() string { return "proto" }

func (s step) context() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	if s.TimeoutMs > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(s.TimeoutMs)*time.Millisecond)
	}
	for name, value := range s.Metadata {
		if strings.HasSuffix(name, "-bin") {
			raw, err := base64.StdEncoding.DecodeString(value)
			must(err)
			value = string(raw)
		}
		ctx = metadata.AppendToOutgoingContext(ctx, name, value)
	}
	if s.CancelMs > 0 {
		time.AfterFunc(time.Duration(s.CancelMs)*time.Millisecond, cancel)
	}
	return ctx, cancel
}

func (s step) call(connection *grpc.ClientConn, request []byte) ([]byte, error) {
	ctx, cancel := s.context()
	defer cancel()
	options := []grpc.CallOption{grpc.ForceCodec(asIs{})}
	if s.Gzip {
		options = append(options, grpc.UseCompressor(gzip.Name))
	}
	var reply []byte
	err := connection.Invoke(ctx, s.Path, &request, &reply, options...)
	return reply, err
}

func (s step) run(connection *grpc.ClientConn) outcome {
	request, err := os.ReadFile(s.Request)
	must(err)
	found := outcome{Codes: map[int]int{}, Replies: [][]byte{}}
	var lock sync.Mutex
	var workers sync.WaitGroup
	turns := make(chan struct{}, s.Count)
	for range s.Count {
		turns <- struct{}{}
	}
	close(turns)
	for range min(s.InFlight, s.Count) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for range turns {
				reply, err := s.call(connection, request)
				lock.Lock()
				found.Codes[int(status.Code(err))]++
				if err == nil {
					found.Replies = append(found.Replies, reply)
				} else {
					found.Message = status.Convert(err).Message()
				}
				lock.Unlock()
			}
		}()
	}
	workers.Wait()
	return found
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	target, planFile, reportFile := os.Args[1], os.Args[2], os.Args[3]
	text, err := os.ReadFile(planFile)
	must(err)
	var plan []step
	must(json.Unmarshal(text, &plan))
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(err)
	defer connection.Close()
	report := map[string]outcome{}
	for _, s := range plan {
		report[s.Name] = s.run(connection)
	}
	text, err = json.Marshal(report)
	must(err)
	must(os.WriteFile(reportFile, text, 0o600))
}
