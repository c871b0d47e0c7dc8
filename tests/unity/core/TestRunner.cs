using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Runtime.ExceptionServices;
using System.Threading.Tasks;

namespace Tau.Core.Tests
{
    /// <summary>Marks a public method without parameters, static or not, as a test; it may return a Task.</summary>
    [AttributeUsage(AttributeTargets.Method)]
    public sealed class TestAttribute : Attribute
    {
    }

    /// <summary>What tests read: the vectors shared with Python, and a data set on disk.</summary>
    public static class TestData
    {
        private static readonly Lazy<Dictionary<string, object>> Parsed =
            new Lazy<Dictionary<string, object>>(ReadVectors);

        /// <summary>File of the shared vectors (argument --vectors), or null.</summary>
        public static string VectorsPath { get; internal set; }

        /// <summary>The packaged data set (argument --data), or null.</summary>
        public static string DataSetPath { get; internal set; }

        /// <summary>The shared vectors, parsed once.</summary>
        public static Dictionary<string, object> Vectors => Parsed.Value;

        private static Dictionary<string, object> ReadVectors()
        {
            if (VectorsPath == null)
            {
                throw new AssertException("this test needs the argument --vectors FILE");
            }
            return (Dictionary<string, object>)Json.Parse(File.ReadAllText(VectorsPath));
        }
    }

    /// <summary>Finds the tests of this assembly and runs one after the other.</summary>
    public static class TestRunner
    {
        private static readonly TimeSpan Limit = TimeSpan.FromSeconds(30);

        /// <summary>
        /// Arguments: --vectors FILE, --data FILE, --filter TEXT (part of a test's name), --list. The last line is
        /// `N passed, N failed`; the exit code is 1 if a test failed or none was found, 2 for wrong arguments.
        /// </summary>
        public static int Main(string[] args)
        {
            var options = new Dictionary<string, string>();
            if (!TryRead(args, options))
            {
                Console.Error.WriteLine("Use: [--vectors FILE] [--data FILE] [--filter TEXT] [--list]");
                return 2;
            }
            TestData.VectorsPath = options.TryGetValue("--vectors", out var vectors) ? vectors : null;
            TestData.DataSetPath = options.TryGetValue("--data", out var data) ? data : null;
            options.TryGetValue("--filter", out var filter);
            var tests = Find(filter ?? string.Empty);
            if (options.ContainsKey("--list"))
            {
                tests.ForEach(test => Console.WriteLine(Name(test)));
                return 0;
            }
            var failed = tests.Count(test => !Run(test));
            Console.WriteLine($"{tests.Count - failed} passed, {failed} failed");
            Console.Out.Flush();
            Environment.Exit(failed == 0 && tests.Count > 0 ? 0 : 1); // also ends tests that still hang
            return 1;
        }

        private static bool TryRead(string[] args, Dictionary<string, string> options)
        {
            for (var index = 0; index < args.Length; index++)
            {
                var flag = args[index];
                if (flag == "--list")
                {
                    options[flag] = string.Empty;
                }
                else if ((flag == "--vectors" || flag == "--data" || flag == "--filter") && index + 1 < args.Length)
                {
                    options[flag] = args[++index];
                }
                else
                {
                    return false;
                }
            }
            return true;
        }

        private static List<MethodInfo> Find(string filter)
        {
            return typeof(TestRunner).Assembly.GetTypes()
                .SelectMany(type => type.GetMethods(
                    BindingFlags.Public | BindingFlags.Instance | BindingFlags.Static | BindingFlags.DeclaredOnly))
                .Where(method => method.GetCustomAttribute<TestAttribute>() != null)
                .Where(method => Name(method).IndexOf(filter, StringComparison.OrdinalIgnoreCase) >= 0)
                .OrderBy(method => method.DeclaringType.FullName, StringComparer.Ordinal)
                .ThenBy(method => method.MetadataToken)
                .ToList();
        }

        private static string Name(MethodInfo method)
        {
            return method.DeclaringType.Name + "." + method.Name;
        }

        private static bool Run(MethodInfo method)
        {
            var clock = Stopwatch.StartNew();
            var work = Task.Factory.StartNew(
                () => Call(method), TaskCreationOptions.LongRunning | TaskCreationOptions.DenyChildAttach).Unwrap();
            Exception error = null;
            try
            {
                if (!work.Wait(Limit))
                {
                    error = new TimeoutException($"still running after {Limit.TotalSeconds:0} s");
                }
            }
            catch (AggregateException several)
            {
                error = several.Flatten().InnerExceptions[0];
            }
            if (error != null)
            {
                Console.WriteLine($"FAILED {Name(method)} ({clock.ElapsedMilliseconds} ms): {Describe(error)}");
            }
            return error == null;
        }

        private static Task Call(MethodInfo method)
        {
            if (method.GetParameters().Length > 0)
            {
                throw new AssertException("a test has no parameters");
            }
            object instance = null;
            try
            {
                instance = method.IsStatic ? null : Activator.CreateInstance(method.DeclaringType);
                return method.Invoke(instance, null) as Task ?? Task.CompletedTask;
            }
            catch (TargetInvocationException wrapped)
            {
                ExceptionDispatchInfo.Capture(wrapped.InnerException).Throw();
                throw;
            }
        }

        private static string Describe(Exception error)
        {
            var kind = error is AssertException ? string.Empty : error.GetType().Name + ": ";
            var place = (error.StackTrace ?? string.Empty).Split('\n')
                .Select(line => line.Trim())
                .FirstOrDefault(line => line.Length > 0 && !line.Contains(".Tests.Assert."));
            return kind + error.Message.Replace("\n", " ") + (place == null ? string.Empty : " [" + place + "]");
        }
    }
}
