/** Locks with the names that users of Hazelcast, Redisson and Curator know. */
package io.holdfast.locks;
