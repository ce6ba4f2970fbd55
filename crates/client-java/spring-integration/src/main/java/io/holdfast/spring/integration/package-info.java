/** Locks of a holdfast cluster for Spring Integration. */
package io.holdfast.spring.integration;
