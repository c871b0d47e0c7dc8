using System;
using System.Collections.Generic;
using System.Linq;

namespace UnityEngine
{
    /// <summary>The program. Tests say what it is.</summary>
    public static class Application
    {
        /// <summary>Without a window.</summary>
        public static bool isBatchMode { get; set; }

        /// <summary>In the editor.</summary>
        public static bool isEditor { get; set; }

        /// <summary>Goes on while another window is in front.</summary>
        public static bool runInBackground { get; set; }

        /// <summary>Where packed files lie.</summary>
        public static string streamingAssetsPath { get; set; } = "";

        /// <summary>Where a game may write.</summary>
        public static string persistentDataPath { get; set; } = "";

        /// <summary>What it runs on.</summary>
        public static string platform { get; set; } = "LinuxPlayer";

        /// <summary>Exit codes that were asked for, in order.</summary>
        internal static List<int> Exits { get; } = new List<int>();

        /// <summary>Asks the program to end; as in Unity, the frame goes on.</summary>
        public static void Quit(int exitCode = 0)
        {
            Exits.Add(exitCode);
        }
    }

    /// <summary>The log.</summary>
    public static class Debug
    {
        /// <summary>What was logged: kind (Log, Warning, Error, Exception) and text.</summary>
        internal static List<(string Kind, string Text)> Lines { get; } = new List<(string Kind, string Text)>();

        /// <summary>Logs a text.</summary>
        public static void Log(object message, Object context = null)
        {
            Lines.Add(("Log", message.ToString()));
        }

        /// <summary>Logs a warning.</summary>
        public static void LogWarning(object message, Object context = null)
        {
            Lines.Add(("Warning", message.ToString()));
        }

        /// <summary>Logs an error.</summary>
        public static void LogError(object message, Object context = null)
        {
            Lines.Add(("Error", message.ToString()));
        }

        /// <summary>Logs an exception.</summary>
        public static void LogException(Exception exception, Object context = null)
        {
            Lines.Add(("Exception", exception.ToString()));
        }

        /// <summary>What was logged of one kind.</summary>
        internal static string[] Of(string kind)
        {
            return Lines.Where(line => line.Kind == kind).Select(line => line.Text).ToArray();
        }
    }

    /// <summary>The clock.</summary>
    public static class Time
    {
        /// <summary>Seconds since the game began, whatever its speed.</summary>
        public static float unscaledTime { get; internal set; }
    }

    /// <summary>The window.</summary>
    public static class Screen
    {
        /// <summary>In pixels.</summary>
        public static int width => 800;

        /// <summary>In pixels.</summary>
        public static int height => 600;
    }

    /// <summary>Assets that are packed by name.</summary>
    public static class Resources
    {
        /// <summary>The assets by their paths.</summary>
        internal static Dictionary<string, Object> Packed { get; } = new Dictionary<string, Object>();

        /// <summary>An asset; null: there is none of this name and type.</summary>
        public static T Load<T>(string path)
            where T : Object
        {
            return Packed.TryGetValue(path, out Object asset) ? asset as T : null;
        }
    }

    /// <summary>Random numbers; every test begins with the same ones.</summary>
    public static class Random
    {
        private static System.Random _source = new System.Random(1);

        /// <summary>Between two numbers.</summary>
        public static float Range(float minInclusive, float maxInclusive)
        {
            return minInclusive + (float)_source.NextDouble() * (maxInclusive - minInclusive);
        }

        /// <summary>A whole number, below the second one.</summary>
        public static int Range(int minInclusive, int maxExclusive)
        {
            return _source.Next(minInclusive, maxExclusive);
        }

        internal static void Reset()
        {
            _source = new System.Random(1);
        }
    }

    /// <summary>Marks a field that the editor saves.</summary>
    [AttributeUsage(AttributeTargets.Field)]
    public sealed class SerializeField : Attribute
    {
    }

    /// <summary>What the editor says about a field.</summary>
    [AttributeUsage(AttributeTargets.Field)]
    public sealed class TooltipAttribute : Attribute
    {
        /// <summary>The text.</summary>
        public TooltipAttribute(string tooltip)
        {
            Text = tooltip;
        }

        /// <summary>The text.</summary>
        public string Text { get; }
    }

    /// <summary>Where the editor's menu has a component.</summary>
    [AttributeUsage(AttributeTargets.Class)]
    public sealed class AddComponentMenu : Attribute
    {
        /// <summary>A path with slashes.</summary>
        public AddComponentMenu(string menuName)
        {
            Path = menuName;
        }

        /// <summary>The path.</summary>
        public string Path { get; }
    }

    /// <summary>An object may have only one of it.</summary>
    [AttributeUsage(AttributeTargets.Class)]
    public sealed class DisallowMultipleComponent : Attribute
    {
    }

    /// <summary>Another component must be there; it is added if it is not.</summary>
    [AttributeUsage(AttributeTargets.Class)]
    public sealed class RequireComponent : Attribute
    {
        /// <summary>The other one.</summary>
        public RequireComponent(Type requiredComponent)
        {
            Needed = requiredComponent;
        }

        /// <summary>The other one.</summary>
        public Type Needed { get; }
    }

    /// <summary>When a static method is called by itself.</summary>
    public enum RuntimeInitializeLoadType
    {
        /// <summary>After the first scene was opened.</summary>
        AfterSceneLoad = 0,
    }

    /// <summary>A static method that the engine calls by itself; tests call it in its stead.</summary>
    [AttributeUsage(AttributeTargets.Method)]
    public sealed class RuntimeInitializeOnLoadMethodAttribute : Attribute
    {
        /// <summary>When it is called.</summary>
        public RuntimeInitializeOnLoadMethodAttribute(RuntimeInitializeLoadType loadType)
        {
            When = loadType;
        }

        /// <summary>When it is called.</summary>
        public RuntimeInitializeLoadType When { get; }
    }
}
