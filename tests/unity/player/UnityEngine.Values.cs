// What ML-Agents and this project's scripts use of Unity beside its objects; most of it means nothing without a screen.
using System;
using System.Linq;
using System.Runtime.CompilerServices;

[assembly: InternalsVisibleTo("TauPlayer")]

namespace UnityEngine
{
    public struct Vector2
    {
        public float x, y;
    }

    public struct Vector3
    {
        public float x, y, z;

        public Vector3(float x, float y, float z)
        {
            this.x = x;
            this.y = y;
            this.z = z;
        }
    }

    public struct Quaternion
    {
        public float x, y, z, w;

        public static Quaternion Euler(float x, float y, float z) => default;
    }

    public struct Color
    {
        public Color(float r, float g, float b) { }

        public Color(float r, float g, float b, float a) { }
    }

    public struct Rect { }

    public enum PrimitiveType { Sphere, Capsule, Cylinder, Cube }

    public enum RuntimePlatform { LinuxPlayer = 13 }

    public class AsyncOperation { }

    public static class Mathf
    {
        public static float Clamp(float value, float min, float max) => Math.Min(Math.Max(value, min), max);

        public static float Max(float left, float right) => Math.Max(left, right);

        public static float Min(float left, float right) => Math.Min(left, right);

        public static int Min(int left, int right) => Math.Min(left, right);
    }

    public static class Random
    {
        private static System.Random _random = new System.Random();

        public static void InitState(int seed) => _random = new System.Random(seed);

        public static float Range(float min, float max) => min + ((max - min) * (float)_random.NextDouble());

        public static int Range(int min, int max) => _random.Next(min, max);
    }

    public static class Time
    {
        public static float unscaledTime => Environment.TickCount / 1000f;

        public static int frameCount => 0;

        public static float timeScale { get; set; }

        public static int captureFramerate { get; set; }
    }

    public static class Screen
    {
        public static void SetResolution(int width, int height, bool fullscreen) { }
    }

    public static class QualitySettings
    {
        public static void SetQualityLevel(int index, bool applyExpensiveChanges) { }
    }

    public static class Resources
    {
        /// <summary>With the flag `-model` there is a model, and it cannot be loaded.</summary>
        public static T Load<T>(string path) where T : Object =>
            Environment.GetCommandLineArgs().Contains("-model") ? (T)Activator.CreateInstance(typeof(T), true) : null;
    }

    /// <summary>The log goes to the standard error stream, or to the file that `-logFile` names.</summary>
    public static class Debug
    {
        public static void Log(object message) => Console.Error.WriteLine(message);

        public static void Log(object message, Object context) => Log(message);

        public static void LogWarning(object message) => Log(message);

        public static void LogError(object message) => Log(message);

        public static void LogError(object message, Object context) => Log(message);

        /// <summary>A member that this stand-in lacks ends the program: the game would go on without it.</summary>
        public static void LogException(Exception exception, Object context)
        {
            Log(exception);
            if (exception is TypeLoadException || exception is MissingMemberException)
            {
                Application.Quit(70);
            }
        }

        public static void Assert(bool condition, string message) => Assert(condition, (object)message);

        public static void Assert(bool condition, object message)
        {
            if (!condition)
            {
                Log("Assertion failed: " + message);
            }
        }

        public static void AssertFormat(bool condition, string format, params object[] args) =>
            Assert(condition, (object)string.Format(format, args));

        public static void LogWarningFormat(string format, params object[] args) => Log(string.Format(format, args));
    }

    public static class Application
    {
        public static event Action quitting;

        public static bool isBatchMode => Environment.GetCommandLineArgs().Contains("-batchmode");

        public static bool isEditor => false;

        public static bool runInBackground { get; set; }

        public static int targetFrameRate { get; set; }

        public static RuntimePlatform platform => RuntimePlatform.LinuxPlayer;

        public static string unityVersion => "2022.3.33f1";

        public static string dataPath => AppDomain.CurrentDomain.BaseDirectory;

        public static string streamingAssetsPath => System.IO.Path.Combine(dataPath, "StreamingAssets");

        public static string persistentDataPath => dataPath;

        internal static int? ExitCode { get; private set; }

        public static void Quit() => Quit(0);

        /// <summary>The game ends after this frame.</summary>
        public static void Quit(int exitCode) => ExitCode = ExitCode ?? exitCode;

        internal static void TellQuitting() => quitting?.Invoke();
    }

    public class AddComponentMenu : Attribute
    {
        public AddComponentMenu(string menuName) { }

        public AddComponentMenu(string menuName, int order) { }
    }

    public sealed class RequireComponent : Attribute
    {
        public RequireComponent(Type requiredComponent) => Type = requiredComponent;

        internal Type Type { get; }
    }

    public enum RuntimeInitializeLoadType { AfterSceneLoad, BeforeSceneLoad }

    public class RuntimeInitializeOnLoadMethodAttribute : Attribute
    {
        public RuntimeInitializeOnLoadMethodAttribute(RuntimeInitializeLoadType loadType) { }
    }

    public sealed class DisallowMultipleComponent : Attribute { }

    public sealed class SerializeField : Attribute { }

    public sealed class HideInInspector : Attribute { }

    public sealed class TooltipAttribute : Attribute
    {
        public TooltipAttribute(string tooltip) { }
    }

    public sealed class RangeAttribute : Attribute
    {
        public RangeAttribute(float min, float max) { }
    }

    public sealed class HelpURLAttribute : Attribute
    {
        public HelpURLAttribute(string url) { }
    }

    public sealed class DefaultExecutionOrder : Attribute
    {
        public DefaultExecutionOrder(int order) { }
    }

    public interface ISerializationCallbackReceiver
    {
        void OnBeforeSerialize();

        void OnAfterDeserialize();
    }
}

namespace UnityEngine.Serialization
{
    public class FormerlySerializedAsAttribute : Attribute
    {
        public FormerlySerializedAsAttribute(string oldName) { }
    }
}

namespace UnityEngine.Profiling
{
    public static class Profiler
    {
        public static void BeginSample(string name) { }

        public static void EndSample() { }
    }

    public sealed class CustomSampler
    {
        public static CustomSampler Create(string name, bool collectGpuData = false) => new CustomSampler();

        public void Begin() { }

        public void End() { }
    }
}
