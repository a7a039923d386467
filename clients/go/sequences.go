package goqueue

import (
	"errors"

	pb "github.com/goqueue/goqueue/clients/go/gen/goqueue/v1"
)

// The node recognises a repeated message among so many of a partition.
const numberedInFlightMax = 5

// errRenewed ends a session whose producer needs another id.
var errRenewed = errors.New("goqueue: the producer needs another id")

// neverStored are the codes of messages that no attempt can have stored.
var neverStored = map[string]bool{
	"message_invalid": true, "name_invalid": true, "partition_invalid": true, "request_invalid": true,
}

func (s *producerSettings) isStamped() bool { return s.isIdempotent || s.transactionalID != "" }

// isNumbered says whether a message has a sequence number, with which it may be sent again.
func (s *producerSettings) isNumbered(request *pb.PublishStreamRequest) bool {
	return s.isStamped() && request.Partition != nil
}

type partitionName struct {
	topic  string
	number int32
}

func partitionOf(request *pb.PublishStreamRequest) partitionName {
	return partitionName{request.Topic, request.GetPartition()}
}

// sequence counts the messages of one partition.
type sequence struct {
	next int64
	// Numbers on the stream, in order.
	inFlight []int64
}

// stamps are the id of a producer and its sequence numbers. The zero value has no id yet.
type stamps struct {
	id        int64
	epoch     int32
	sequences map[partitionName]*sequence
}

// stamp gives a message its number, unless it has one; false if it has to wait for those before it.
func (s *stamps) stamp(request *pb.PublishStreamRequest, settings *producerSettings) bool {
	if !settings.isStamped() {
		return true
	}
	if s.id == 0 {
		return false
	}
	request.ProducerId, request.ProducerEpoch = s.id, s.epoch
	if request.Partition == nil {
		return true
	}
	counted := s.sequences[partitionOf(request)]
	if counted == nil {
		counted = &sequence{}
		s.sequences[partitionOf(request)] = counted
	}
	number := counted.next
	if request.Sequence != nil {
		number = request.GetSequence()
	}
	// One that is sent again may be stored already, and so may those behind it.
	if len(counted.inFlight) > 0 && number-counted.inFlight[0] >= numberedInFlightMax {
		return false
	}
	if request.Sequence == nil {
		request.Sequence = &number
		counted.next++
	}
	counted.inFlight = append(counted.inFlight, number)
	return true
}

// leave counts a message that was answered.
func (s *stamps) leave(request *pb.PublishStreamRequest) {
	if counted := s.sequences[partitionOf(request)]; counted != nil && len(counted.inFlight) > 0 {
		counted.inFlight = counted.inFlight[1:]
	}
}

// rewind begins a stream: nothing is on its way.
func (s *stamps) rewind() {
	for _, counted := range s.sequences {
		counted.inFlight = nil
	}
}

// drain is what happens to numbered messages after one was refused. The node takes the numbers of a
// partition in order, so those behind it on the stream are refused, too: sending stops until all of
// them are answered. Then they are sent again, with the same numbers if the refused one is sent
// again, too, else with new ones.
//
// A number is given to another message only if no stream that broke can still bring the node the
// one that had it; otherwise the producer takes a new id.
type drain struct {
	isDraining bool
	// What is sent again, in order.
	returned []*pending
	// Partitions in which a message was refused.
	troubled map[partitionName]bool
	holes    map[partitionName]hole
}

// hole is the lowest number whose message is given up.
type hole struct {
	number int64
	// Whether the message may have been stored.
	isUncertain bool
}

func (d *drain) begin(name partitionName) {
	d.isDraining = true
	if d.troubled == nil {
		d.troubled, d.holes = map[partitionName]bool{}, map[partitionName]hole{}
	}
	d.troubled[name] = true
}

// isFollower says whether a message was refused only because one before it was.
func (d *drain) isFollower(request *pb.PublishStreamRequest, refused *Error) bool {
	return refused.Code == "sequence_out_of_order" && d.troubled[partitionOf(request)]
}

// wait keeps a refused message for the end of the drain.
func (d *drain) wait(entry *pending) {
	d.begin(partitionOf(entry.request))
	d.returned = append(d.returned, entry)
}

// leave gives up a message.
func (d *drain) leave(entry *pending, isUncertain bool) {
	name := partitionOf(entry.request)
	d.begin(name)
	found, isKnown := d.holes[name]
	number := entry.request.GetSequence()
	if isKnown {
		number = min(number, found.number)
	}
	d.holes[name] = hole{number: number, isUncertain: isUncertain || found.isUncertain}
}

// isBehindHole says whether a message follows one that certainly is not stored.
func (d *drain) isBehindHole(request *pb.PublishStreamRequest) bool {
	found, isKnown := d.holes[partitionOf(request)]
	return isKnown && !found.isUncertain && request.Sequence != nil &&
		request.GetSequence() > found.number
}

// resolve ends a drain: nothing is on the stream. It returns the messages that cannot be sent again
// safely, and whether the producer needs another id. The lock of the producer is held.
func (p *Producer) resolve() (uncertain []*pending, isRenewed bool) {
	ended := p.numbers
	p.numbers = drain{}
	p.again = append(ended.returned, p.again...)
	for _, found := range ended.holes {
		isRenewed = isRenewed || found.isUncertain
	}
	for _, entry := range p.again {
		isRenewed = isRenewed || (entry.isUnknown && ended.isBehindHole(entry.request))
	}
	if !isRenewed {
		for _, entry := range p.again {
			if ended.isBehindHole(entry.request) {
				entry.request.Sequence = nil
			}
		}
		for name, found := range ended.holes {
			p.stamps.sequences[name].next = found.number
		}
		return nil, false
	}
	p.stamps = stamps{}
	var kept []*pending
	for _, entry := range p.again {
		switch {
		case !p.settings.isNumbered(entry.request):
			kept = append(kept, entry)
		case entry.isUnknown && !ended.isBehindHole(entry.request):
			uncertain = append(uncertain, entry)
		default:
			entry.isUnknown = false
			entry.request.Sequence = nil
			kept = append(kept, entry)
		}
	}
	p.again = kept
	return uncertain, true
}
