// The compiler as a process that stays: its arguments come line by line, an empty line ends them; what it says goes
// back, then a line with its exit code.

using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.Loader;

internal static class Host
{
    private static void Main(string[] args)
    {
        var folder = Path.GetDirectoryName(args[0]);
        AssemblyLoadContext.Default.Resolving += (context, name) =>
        {
            var path = Path.Combine(folder, name.Name + ".dll");
            return File.Exists(path) ? context.LoadFromAssemblyPath(path) : null;
        };
        var compiler = AssemblyLoadContext.Default.LoadFromAssemblyPath(args[0]).EntryPoint;
        var arguments = new List<string>();
        while (Console.ReadLine() is string line)
        {
            if (line != "")
            {
                arguments.Add(line);
                continue;
            }
            var code = compiler.Invoke(null, new object[] { arguments.ToArray() });
            Console.WriteLine($"ended with {code}");
            arguments.Clear();
        }
    }
}
