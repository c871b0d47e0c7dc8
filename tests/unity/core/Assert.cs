using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading.Tasks;

namespace Tau.Core.Tests
{
    /// <summary>A check that did not hold.</summary>
    public sealed class AssertException : Exception
    {
        /// <summary>Says what was expected and what came.</summary>
        public AssertException(string message)
            : base(message)
        {
        }
    }

    /// <summary>Checks; all of them throw <see cref="AssertException"/>.</summary>
    public static class Assert
    {
        /// <summary>The condition holds.</summary>
        public static void True(bool condition, string what = "the condition does not hold")
        {
            if (!condition)
            {
                throw new AssertException(what);
            }
        }

        /// <summary>Both are equal by <see cref="object.Equals(object, object)"/>.</summary>
        public static void Equal<T>(T expected, T actual, string what = "")
        {
            if (!EqualityComparer<T>.Default.Equals(expected, actual))
            {
                throw new AssertException(Different(expected, actual, what));
            }
        }

        /// <summary>Both differ by at most <paramref name="tolerance"/>; NaN equals nothing but NaN.</summary>
        public static void Equal(double expected, double actual, double tolerance, string what = "")
        {
            var same = expected.Equals(actual) || Math.Abs(expected - actual) <= tolerance;
            if (!same)
            {
                throw new AssertException(Different(expected, actual, what) + " within " + Text(tolerance));
            }
        }

        /// <summary>Both have the same items in the same order.</summary>
        public static void Sequence<T>(IEnumerable<T> expected, IEnumerable<T> actual, string what = "")
        {
            var left = expected.ToList();
            var right = actual.ToList();
            for (var index = 0; index < Math.Min(left.Count, right.Count); index++)
            {
                Equal(left[index], right[index], what + " item " + index);
            }
            Equal(left.Count, right.Count, what + " count");
        }

        /// <summary>The text holds the part.</summary>
        public static void Contains(string part, string text)
        {
            True(text != null && text.Contains(part), "`" + text + "` does not hold `" + part + "`");
        }

        /// <summary>The action throws exactly this exception, which is returned.</summary>
        public static T Throws<T>(Action action)
            where T : Exception
        {
            try
            {
                action();
            }
            catch (T expected) when (expected.GetType() == typeof(T))
            {
                return expected;
            }
            catch (Exception other)
            {
                throw new AssertException(
                    "expected " + typeof(T).Name + " but came " + other.GetType().Name + ": " + other.Message);
            }
            throw new AssertException("expected " + typeof(T).Name + " but nothing was thrown");
        }

        /// <summary>The asynchronous action throws exactly this exception, which is returned.</summary>
        public static T Throws<T>(Func<Task> action)
            where T : Exception
        {
            Action blocking = () => action().GetAwaiter().GetResult();
            return Throws<T>(blocking);
        }

        private static string Different(object expected, object actual, string what)
        {
            var place = string.IsNullOrWhiteSpace(what) ? string.Empty : what.Trim() + ": ";
            return place + "expected `" + Text(expected) + "` but came `" + Text(actual) + "`";
        }

        private static string Text(object value)
        {
            return value is IFormattable number
                ? number.ToString(value is float || value is double ? "R" : null, Culture)
                : value?.ToString() ?? "null";
        }

        private static readonly IFormatProvider Culture = System.Globalization.CultureInfo.InvariantCulture;
    }
}
