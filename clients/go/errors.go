package goqueue

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/goqueue/goqueue/clients/go/gen/goqueue/v1"
)

const errorTrailer = "goqueue-error-bin"

// ErrClosed is the error of a producer, consumer or client that was closed.
var ErrClosed = errors.New("goqueue: closed")

// Error is a refusal of the node. Code is stable, such as "topic_not_found"; Message is for people.
type Error struct {
	Code       string
	Message    string
	Details    map[string]string
	RetryAfter time.Duration
	Status     codes.Code
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// GRPCStatus lets status.FromError see the status of the call.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Status, e.Message) }

// IsCode says whether an error is a refusal with this code.
func IsCode(err error, code string) bool {
	var refused *Error
	return errors.As(err, &refused) && refused.Code == code
}

// retriable are the codes of refusals that may succeed later; true if it is known that nothing was
// done, false if the outcome is unknown.
var retriable = map[string]bool{
	"backup_busy":           true,
	"broker_unavailable":    true,
	"leader_unavailable":    true,
	"not_controller":        true,
	"not_enough_replicas":   true,
	"not_leader":            true,
	"rate_limited":          true,
	"rebalance_in_progress": true,
	"replication_failed":    false,
	"request_timeout":       false,
	"storage_full":          true,
	"topic_busy":            true,
}

// IsRetriable says whether the same call, unchanged, may succeed later. A publish that is repeated
// after an unknown outcome may be stored twice.
func IsRetriable(err error) bool {
	var refused *Error
	if errors.As(err, &refused) {
		_, found := retriable[refused.Code]
		return found
	}
	return status.Code(err) == codes.Unavailable
}

// isUndone says whether an error is retriable and it is known that nothing was done.
func isUndone(err error) bool {
	var refused *Error
	return errors.As(err, &refused) && retriable[refused.Code]
}

// retryAfter is how long the node asks to wait before the next attempt.
func retryAfter(err error) time.Duration {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.RetryAfter
	}
	return 0
}

// statuses are the statuses of the codes, which errors of single items do not carry.
var statuses = map[string]codes.Code{}

func init() {
	for code, names := range map[codes.Code]string{
		codes.InvalidArgument: "request_invalid name_invalid partition_invalid message_too_large " +
			"message_invalid receipt_invalid delay_too_long schema_invalid compatibility_invalid " +
			"schema_violation",
		codes.Unauthenticated:   "unauthenticated",
		codes.PermissionDenied:  "permission_denied topic_internal tenant_inactive",
		codes.Unimplemented:     "route_not_found method_not_allowed",
		codes.ResourceExhausted: "body_too_large rate_limited quota_exceeded storage_full",
		codes.DeadlineExceeded:  "request_timeout no_reply",
		codes.Internal:          "internal_error storage_failed",
		codes.NotFound: "topic_not_found partition_not_found group_not_found member_not_found " +
			"message_not_found transaction_not_found producer_not_found reassignment_not_found " +
			"subject_not_found version_not_found schema_not_found tenant_not_found key_not_found " +
			"acl_not_found backup_not_found trace_not_found node_not_found schedule_not_found",
		codes.AlreadyExists: "topic_exists tenant_exists schedule_exists certificate_in_use",
		codes.OutOfRange:    "offset_out_of_range",
		codes.Aborted: "topic_busy rebalance_in_progress generation_stale session_expired " +
			"transaction_timeout epoch_stale backup_busy",
		codes.FailedPrecondition: "partition_not_assigned group_mismatch receipt_stale " +
			"already_delivered dead_letter_loop producer_fenced transaction_state_invalid " +
			"sequence_out_of_order schema_incompatible schema_referenced tenant_not_empty node_alive",
		codes.Unavailable: "not_leader leader_unavailable broker_unavailable replication_failed " +
			"not_enough_replicas not_controller",
		codes.DataLoss: "records_damaged",
	} {
		for _, name := range strings.Fields(names) {
			statuses[name] = code
		}
	}
}

func codeName(code pb.ErrorCode) string {
	return strings.ToLower(strings.TrimPrefix(code.String(), "ERROR_CODE_"))
}

// itemError makes an Error of the error of one item of a stream or a batch.
func itemError(found *pb.Error) *Error {
	name := codeName(found.GetCode())
	code, isKnown := statuses[name]
	if !isKnown {
		code = codes.Unknown
	}
	return &Error{
		Code:       name,
		Message:    found.GetMessage(),
		Details:    found.GetDetails(),
		RetryAfter: found.GetRetryAfter().AsDuration(),
		Status:     code,
	}
}

// callError makes an Error of a failed call and its trailing metadata.
func callError(err error, trailer metadata.MD) error {
	if err == nil {
		return nil
	}
	if found := trailer.Get(errorTrailer); len(found) > 0 {
		var refused pb.Error
		if proto.Unmarshal([]byte(found[0]), &refused) == nil {
			failed := itemError(&refused)
			failed.Status = status.Code(err)
			return failed
		}
	}
	return err
}

// streamError is why a stream ended. A node that ends a stream well is about to stop.
func streamError(err error, trailer metadata.MD) error {
	if errors.Is(err, io.EOF) {
		return status.Error(codes.Unavailable, "the stream has ended")
	}
	return callError(err, trailer)
}
