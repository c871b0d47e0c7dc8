using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Text.Json;

namespace Tau.Core.Tests
{
    /// <summary>Marks a public method without parameters as a test.</summary>
    [AttributeUsage(AttributeTargets.Method)]
    public sealed class TestAttribute : Attribute
    {
    }

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

        /// <summary>Both are equal.</summary>
        public static void Equal<T>(T expected, T actual, string what = "")
        {
            True(
                EqualityComparer<T>.Default.Equals(expected, actual),
                FormattableString.Invariant($"{what}: expected `{expected}` but came `{actual}`"));
        }

        /// <summary>Both differ by at most <paramref name="tolerance"/>; NaN equals nothing but NaN.</summary>
        public static void Near(double expected, double actual, double tolerance = 1e-12, string what = "")
        {
            True(
                expected.Equals(actual) || Math.Abs(expected - actual) <= tolerance,
                FormattableString.Invariant($"{what}: expected `{expected:R}` but came `{actual:R}`"));
        }

        /// <summary>Both have the same items in the same order.</summary>
        public static void Sequence<T>(IEnumerable<T> expected, IEnumerable<T> actual, string what = "")
        {
            Equal(string.Join("|", expected.Select(Text)), string.Join("|", actual.Select(Text)), what);
        }

        /// <summary>The text holds the part.</summary>
        public static void Contains(string part, string text)
        {
            True(text != null && text.Contains(part), $"`{text}` does not hold `{part}`");
        }

        /// <summary>The action throws exactly this exception, which is returned.</summary>
        public static T Throws<T>(Action action, string what = "")
            where T : Exception
        {
            try
            {
                action();
            }
            catch (Exception error)
            {
                return error as T ?? throw new AssertException($"{what}: expected {typeof(T).Name} but came {error}");
            }
            throw new AssertException($"{what}: expected {typeof(T).Name} but nothing was thrown");
        }

        /// <summary>The action is refused with a sentence that begins like this.</summary>
        public static void Refused(string sentence, Action action)
        {
            var message = Throws<TauException>(action, sentence).Message;
            True(message.StartsWith(sentence, StringComparison.Ordinal), $"expected `{sentence}` but came `{message}`");
        }

        private static string Text<T>(T value)
        {
            return Convert.ToString(value, CultureInfo.InvariantCulture);
        }
    }

    /// <summary>Finds the tests of this assembly and runs one after the other.</summary>
    public static class TestRunner
    {
        /// <summary>The cases that Python and C# share.</summary>
        public static JsonElement Vectors { get; private set; }

        /// <summary>The data set of the Unity project.</summary>
        public static string DataFile { get; private set; }

        /// <summary>
        /// Arguments: the file of the shared cases, the data set, and a part of a test's name. The last line is
        /// `N passed, N failed`; the exit code is 0 if all that were found passed, and there were some.
        /// </summary>
        public static int Main(string[] args)
        {
            Vectors = JsonDocument.Parse(File.ReadAllText(args[0])).RootElement;
            DataFile = args[1];
            var tests = typeof(TestRunner).Assembly.GetTypes().SelectMany(type => type.GetMethods())
                .Where(method => method.IsDefined(typeof(TestAttribute)))
                .Where(method => Name(method).Contains(args.Length > 2 ? args[2] : string.Empty)).ToList();
            var failed = tests.Count(test => !Run(test));
            Console.WriteLine($"{tests.Count - failed} passed, {failed} failed");
            return failed == 0 && tests.Count > 0 ? 0 : 1;
        }

        private static string Name(MethodInfo method)
        {
            return method.DeclaringType.Name + "." + method.Name;
        }

        private static bool Run(MethodInfo method)
        {
            try
            {
                method.Invoke(Activator.CreateInstance(method.DeclaringType), null);
                return true;
            }
            catch (TargetInvocationException wrapped)
            {
                Console.WriteLine($"FAILED {Name(method)}: {wrapped.InnerException}");
                return false;
            }
        }
    }
}
