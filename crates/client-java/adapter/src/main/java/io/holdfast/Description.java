package io.holdfast;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;

/** Describes this client for the table of names, by reflection. */
final class Description {
    private static final Map<Class<?>, String> WORDS = Map.of(
            String.class, "text",
            Path.class, "text",
            Mode.class, "text",
            Loss.Cause.class, "text",
            Duration.class, "duration",
            int.class, "integer",
            boolean.class, "flag",
            Metrics.class, "metrics",
            Exception.class, "error");

    private Description() {}

    static Map<String, Object> of(Function<Class<?>, String> kindOf) {
        Map<String, Object> clientOptions = options(HoldfastBuilder.class, Holdfast.builder());
        clientOptions.put("addresses", Map.of("type", "texts", "default", Holdfast.builder().addresses));
        return Map.of(
                "client_options", clientOptions,
                "lock_options", options(LockRequest.class, new LockOptions()),
                "errors", errors(kindOf),
                "loss_causes", losses(),
                "guard_members", guardMembers(),
                "metrics", metrics());
    }

    /** The methods that return a changed builder, with the default in the field of the same name. */
    private static Map<String, Object> options(Class<?> builder, Object defaults) {
        Map<String, Object> described = new TreeMap<>();
        for (Method method : builder.getDeclaredMethods()) {
            if (isPublic(method) && method.getReturnType() == builder) {
                Class<?>[] types = method.getParameterTypes();
                Map<String, Object> option = new TreeMap<>();
                option.put("type", types.length == 0 ? "none" : word(types[0]));
                option.put("default", valueOf(defaults, method.getName()));
                described.put(method.getName(), option);
            }
        }
        return described;
    }

    private static Object valueOf(Object defaults, String name) {
        try {
            Field field = defaults.getClass().getDeclaredField(name);
            Object value = field.get(defaults);
            boolean isNothing = value == Metrics.NONE;
            return isNothing ? null : value instanceof Duration duration ? duration.toMillis() : value;
        } catch (NoSuchFieldException e) {
            return null;
        } catch (IllegalAccessException e) {
            throw new AssertionError(e);
        }
    }

    private static boolean isPublic(Method method) {
        return Modifier.isPublic(method.getModifiers()) && !method.isSynthetic();
    }

    private static String word(Class<?> type) {
        return WORDS.getOrDefault(type, type.getSimpleName());
    }

    private static Map<String, Object> errors(Function<Class<?>, String> kindOf) {
        Map<String, Object> described = new TreeMap<>();
        for (Class<?> error : HoldfastException.class.getPermittedSubclasses()) {
            described.put(error.getSimpleName(), Map.of("kind", kindOf.apply(error)));
        }
        return described;
    }

    private static Map<String, Object> losses() {
        Map<String, Object> described = new TreeMap<>();
        for (Loss.Cause cause : Loss.Cause.values()) {
            described.put(cause.code(), Map.of());
        }
        return described;
    }

    private static Map<String, Object> guardMembers() {
        Map<String, Object> described = new TreeMap<>();
        for (Method method : Guard.class.getDeclaredMethods()) {
            if (isPublic(method) && !method.getName().equals("toString")) {
                described.put(method.getName(), Map.of());
            }
        }
        return described;
    }

    private static Map<String, Object> metrics() {
        Map<String, Object> described = new TreeMap<>();
        for (Method method : Metrics.class.getDeclaredMethods()) {
            List<String> words = Arrays.stream(method.getParameterTypes()).map(Description::word).toList();
            described.put(method.getName(), Map.of("arguments", words));
        }
        return described;
    }
}
