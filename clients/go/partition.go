package goqueue

import (
	"encoding/binary"
	"math/bits"
)

// PartitionOf is the partition that the node chooses for a key, if the topic has so many. Idempotent
// producers need it: their sequence numbers count the messages of one partition.
func PartitionOf(key []byte, partitions int32) int32 {
	return int32(murmur3(key) % uint32(partitions))
}

// murmur3 is MurmurHash3, x86, 32 bits, seed 0.
func murmur3(data []byte) uint32 {
	mix := func(word uint32) uint32 { return bits.RotateLeft32(word*0xcc9e2d51, 15) * 0x1b873593 }
	size := uint32(len(data))
	hash := uint32(0)
	for ; len(data) >= 4; data = data[4:] {
		hash = bits.RotateLeft32(hash^mix(binary.LittleEndian.Uint32(data)), 13)*5 + 0xe6546b64
	}
	var rest [4]byte
	copy(rest[:], data)
	hash ^= mix(binary.LittleEndian.Uint32(rest[:])) ^ size
	hash = (hash ^ hash>>16) * 0x85ebca6b
	hash = (hash ^ hash>>13) * 0xc2b2ae35
	return hash ^ hash>>16
}
