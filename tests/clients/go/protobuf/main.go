// Reads the same things as JSON and as protobuf, and says of each whether they are the same to a Go client.
//
// Standard input has a line for each: "get PATH", "post PATH JSON", "watch PATH N" (the first N events). Standard output
// has a line for each answer: the media types that came, then "same" or what differs.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const protobuf = "application/vnd.kubernetes.protobuf"

type client struct {
	rest *rest.RESTClient
	came string // media type of the last answer
}

type recorder struct {
	next http.RoundTripper
	to   *client
}

func (r recorder) RoundTrip(q *http.Request) (*http.Response, error) {
	answer, err := r.next.RoundTrip(q)
	if err == nil {
		r.to.came = answer.Header.Get("Content-Type")
	}
	return answer, err
}

func connect(media string) *client {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		panic(err)
	}
	c := &client{}
	config.ContentType, config.AcceptContentTypes = media, media
	config.GroupVersion = &schema.GroupVersion{Version: "v1"}
	config.APIPath = "/"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recorder{next, c} })
	c.rest, err = rest.RESTClientFor(config)
	if err != nil {
		panic(err)
	}
	return c
}

func path(q *rest.Request, uri string) *rest.Request {
	return q.RequestURI(uri)
}

func show(a, b any) string {
	if equality.Semantic.DeepEqual(a, b) {
		return "same"
	}
	return strings.ReplaceAll(cmp.Diff(a, b), "\n", "\\n")
}

// An error is compared by its Status.
func get(c *client, uri string) any {
	object, err := path(c.rest.Get(), uri).Do(context.Background()).Get()
	if status, ok := err.(errors.APIStatus); ok {
		return status.Status()
	}
	if err != nil {
		return err.Error()
	}
	// JSON says of each item what it is, protobuf of the list alone.
	_ = meta.EachListItem(object, func(item runtime.Object) error {
		item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		return nil
	})
	return object
}

func post(c *client, uri, text string) string {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(text), nil, nil)
	if err != nil {
		return err.Error()
	}
	answer, err := path(c.rest.Post(), uri).Body(object).Do(context.Background()).Get()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%T", answer)
}

func watch(c *client, uri string, count int) []runtime.Object {
	stream, err := path(c.rest.Get(), uri).Watch(context.Background())
	if err != nil {
		panic(err)
	}
	defer stream.Stop()
	var seen []runtime.Object
	for len(seen) < count {
		event, ok := <-stream.ResultChan()
		if !ok {
			break
		}
		seen = append(seen, event.Object)
	}
	return seen
}

func main() {
	if err := apiextensions.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	plain, binary := connect("application/json"), connect(protobuf)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		words := strings.SplitN(lines.Text(), " ", 3)
		result := ""
		switch words[0] {
		case "get":
			result = show(get(plain, words[1]), get(binary, words[1]))
		case "post":
			result = post(binary, words[1], words[2])
		case "watch":
			count, _ := strconv.Atoi(words[2])
			result = show(watch(plain, words[1], count), watch(binary, words[1], count))
		}
		fmt.Printf("%s %s %s\n", plain.came, binary.came, result)
	}
}
