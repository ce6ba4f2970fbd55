/** A client of a holdfast cluster for Spring Boot. */
package io.holdfast.spring.boot;
